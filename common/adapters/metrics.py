"""Every metric, defined once. Labels are from closed lists or names of classes: nothing of a tenant (I11).

Both processes import this module; what a process does not do stays without a sample or at zero.
"""

from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_ADMISSION_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
_PLANNER_S: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0)
_LATENESS_S: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)

# Webhook
REVIEWS: Final = Counter(
    "gpures_webhook_reviews",
    "Admission reviews answered, by entry, verdict and reason.",
    ["entry", "verdict", "reason"],
)
REVIEW_SECONDS: Final = Histogram(
    "gpures_webhook_review_seconds", "Time to answer an admission review.", ["entry"], buckets=_ADMISSION_S
)
CLAIM_PATCHES: Final = Counter(
    "gpures_claim_patches", "Patches that add claims, by outcome: stored, refused, unknown, not_found.", ["outcome"]
)
CLAIM_SECONDS: Final = Histogram("gpures_claim_seconds", "Time of one patch that adds claims.", buckets=_ADMISSION_S)
CLAIMS_PER_PATCH: Final = Histogram(
    "gpures_claims_per_patch", "Claims that shared one patch.", buckets=(1, 2, 4, 8, 16, 32, 64, 128)
)
LATE_CLAIMS: Final = Counter(
    "gpures_late_claims", "Pods stored held because their claim was not answered before its deadline."
)
BREAKER_OPEN: Final = Gauge("gpures_breaker_open", "1 while pods are held without trying to claim, else 0.")

# A label, so that a process that serves no certificate has no sample, which would read as "ended".
CERTIFICATE_DAYS_LEFT: Final = Gauge(
    "gpures_certificate_days_left",
    "Days until the certificate that is served ends, below 0 afterwards.",
    ["certificate"],
)

# Reflectors
REFLECTOR_AGE: Final = Gauge(
    "gpures_reflector_age_seconds", "Time since the last event, bookmark or list; infinite before the first.", ["kind"]
)
REFLECTOR_LISTS: Final = Counter("gpures_reflector_lists", "Complete lists; more than one is a re-list.", ["kind"])
REFLECTOR_FAILURES: Final = Counter(
    "gpures_reflector_failures", "Lists and watches that ended with an error, by its type.", ["kind", "error"]
)
REFLECTOR_MALFORMED: Final = Counter(
    "gpures_reflector_malformed_objects", "Objects that could not be read and were left as last known.", ["kind"]
)
REFLECTOR_HANDLER_ERRORS: Final = Counter(
    "gpures_reflector_handler_errors", "Changes on which our own code raised an exception.", ["kind"]
)

# Reconciler
LEADER: Final = Gauge("gpures_leader", "1 while this process holds the lease, else 0.")
WRITES: Final = Counter(
    "gpures_writes", "Writes to the API server, by what they do and how they ended.", ["action", "outcome"]
)
WRITE_SECONDS: Final = Histogram(
    "gpures_write_seconds", "Time of one write to the API server.", ["action"], buckets=_ADMISSION_S
)
PLANNER_SECONDS: Final = Histogram(
    "gpures_planner_seconds", "Time of one run of a planner.", ["planner"], buckets=_PLANNER_S
)
HELD_PODS: Final = Gauge("gpures_held_pods", "Pods that wait behind our gate.", ["gpu_class", "reason"])
RELEASE_LATENESS: Final = Histogram(
    "gpures_release_lateness_seconds",
    "From the instant at which a pod could be let in to the answer of the patch that did.",
    buckets=_LATENESS_S,
)
ORPHANS_DROPPED: Final = Counter("gpures_orphan_claims_dropped", "Claims dropped because no pod was stored with them.")
UNPLACED_DELETED: Final = Counter(
    "gpures_unplaced_pods_deleted", "Pods deleted because no node took them before their guarantee ended."
)
UNITS: Final = Gauge(
    "gpures_class_units", "Units of a class as in its status, by what is counted.", ["gpu_class", "count"]
)
RESERVATIONS: Final = Gauge("gpures_reservations", "Reservations, by class and phase.", ["gpu_class", "phase"])
CERTIFICATE_STEPS: Final = Counter(
    "gpures_certificate_steps",
    "Steps of the rotation of certificates, by step and outcome: done, conflict, failed.",
    ["step", "outcome"],
)
CERTIFICATE_ROUNDS_FAILED: Final = Counter(
    "gpures_certificate_rounds_failed", "Looks at the certificates that ended with an error."
)
WEBHOOK_CONFIGURATIONS_MISSING: Final = Gauge(
    "gpures_webhook_configurations_missing",
    "1 while the leader does not find our webhook configuration of this kind (mutating, validating), else 0.",
    ["kind"],
)

# Both
CLOCK_UNCERTAINTY: Final = Gauge(
    "gpures_clock_uncertainty_seconds",
    "Width of the interval in which the API server's clock lies; infinite if unknown.",
)
CLOCK_CONTRADICTIONS: Final = Gauge(
    "gpures_clock_contradictions", "Answers whose date did not agree with those before since the start."
)
EVENTS: Final = Counter("gpures_events", "Kubernetes Events, by outcome: sent, repeated, dropped, failed.", ["outcome"])


def forget_cluster() -> None:
    """What only a leader counts: one that leads no more must not go on telling its last numbers."""
    for gauge in (UNITS, HELD_PODS, RESERVATIONS):
        gauge.clear()


def forget_class(name: str) -> None:
    """A class that is gone."""
    for gauge in (UNITS, HELD_PODS, RESERVATIONS):
        gauge.remove_by_labels({"gpu_class": name})
