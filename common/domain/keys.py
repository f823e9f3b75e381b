"""Every name that we put on, or read from, objects of others. `docs/reference/keys.md` explains them to people."""

from typing import Final

GROUP: Final = "gpures.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"

GATE: Final = "gpures.dev/hold"
TAINT: Final = "gpu-class-reservation"
CLASS_LABEL: Final = "gpu-class"
RESERVATION_LABEL: Final = "gpures.dev/reservation"
HELD_CONDITION: Final = "gpures.dev/Held"

# Annotations of ours: `held` reads `Reason: sentence`, `claim` carries the token.
CLAIM: Final = "gpures.dev/claim"
HELD: Final = "gpures.dev/held"
HELD_UNTIL: Final = "gpures.dev/held-until"
USE_RESERVATION: Final = "gpures.dev/use-reservation"
IF_HELD: Final = "gpures.dev/if-held"
"""Input: `Refuse` on a pod without a controller turns the hold into a denial."""
REFUSE: Final = "Refuse"
CREATED_BY: Final = "gpures.dev/created-by"
CHANGED_BY: Final = "gpures.dev/changed-by"

# The published contract of seed 000; its users' widgets read these.
BOOKING_REFERENCE: Final = "galends/booking-reference"
RUNTIME_LIMIT: Final = "galends/pod-runtime-limit-seconds"
GUARANTEED_UNTIL: Final = "galends/guaranteed-until"
GUARANTEE_STATUS: Final = "galends/guarantee-status"
RESERVATION_KIND: Final = "galends/reservation-kind"
RESERVATION_START: Final = "galends/reservation-start"
RESERVATION_END: Final = "galends/reservation-end"
RESERVATION_GPU_COUNT: Final = "galends/reservation-gpu-count"
GPU_CLASS_NAME: Final = "galends/gpu-class-name"
ADMITTED_AT: Final = "galends/admitted-at"

POD_OUTPUTS: Final = frozenset(
    {
        CLAIM,
        HELD,
        HELD_UNTIL,
        BOOKING_REFERENCE,
        RUNTIME_LIMIT,
        GUARANTEED_UNTIL,
        GUARANTEE_STATUS,
        RESERVATION_KIND,
        RESERVATION_START,
        RESERVATION_END,
        RESERVATION_GPU_COUNT,
        GPU_CLASS_NAME,
        ADMITTED_AT,
    }
)
"""Annotations that only we write; in a request they are stripped (the claim is refused)."""
