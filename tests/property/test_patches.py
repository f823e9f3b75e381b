"""Ten thousand random pods: every patch applies, does what it says, and a second run finds nothing left to do."""

import json
import random  # noqa: TID251 - seeded, and the seed is told
from typing import Any

import jsonpatch
import pytest

from common.adapters.wire import decode_pod
from common.domain import keys, podpatch
from common.domain.pod import Toleration
from common.domain.ports import JsonPatch
from common.domain.reasons import Hold, Reason
from common.domain.reservation import ReservationType, Token, Wish
from common.domain.tolerations import reserved_toleration
from tests.support.builders import a_class, a_reservation, at, granted
from tests.support.manifests import a_pod, raw

PODS = 10_000
SEEDS = range(4)

GRANT = podpatch.grant_of(a_reservation(), granted(), a_class(), Token("1764582000-1-9f3c"), at(12))
HOLDS = (
    Hold(Reason.NO_RESERVATION, "nothing booked"),
    Hold(Reason.WAITING_FOR_RESERVATION, "opens later", at(14), "sprint"),
)
GATES = ("gpures.dev/hold", "example.com/quota", "example.com/~odd/one")
KEYS = (*sorted(keys.POD_OUTPUTS), "example.com/a~b", "plain", "a/b/c~1", "~0~1", keys.USE_RESERVATION)
TOLERATIONS: tuple[dict[str, Any], ...] = (
    {"key": keys.TAINT, "operator": "Equal", "value": "h100", "effect": "NoSchedule"},
    {"key": keys.TAINT, "operator": "Exists"},
    {"operator": "Exists"},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300},
)


def some(choice: random.Random, items: tuple[Any, ...]) -> list[Any]:
    return choice.sample(items, choice.randint(0, len(items)))


def random_pod(choice: random.Random) -> dict[str, Any]:
    """With empty, null and absent parents, odd keys, and our own outputs in any mixture."""
    pod = a_pod(gpus=choice.randint(0, 3))
    spec, metadata = pod["spec"], pod["metadata"]
    fields: tuple[tuple[dict[str, Any], str, Any], ...] = (
        (spec, "schedulingGates", [{"name": gate} for gate in some(choice, GATES)]),
        (spec, "tolerations", some(choice, TOLERATIONS)),
        (metadata, "annotations", {key: choice.choice(("", "x", "Undecided: y")) for key in some(choice, KEYS)}),
    )
    for parent, name, value in fields:
        match choice.randint(0, 9):
            case 0:
                parent[name] = None
            case 1 | 2:
                parent.pop(name, None)
            case _:
                parent[name] = value
    match choice.randint(0, 3):
        case 0:
            metadata["labels"] = None
        case 1:
            metadata.pop("labels", None)
        case 2:
            metadata["labels"] = {"gpu-class": "h100", "gpures.dev/reservation": "vip"}
    return pod


def parts(pod: dict[str, Any]) -> podpatch.PodParts:
    return podpatch.parts_of(decode_pod(raw(pod)))


def applied(pod: dict[str, Any], operations: JsonPatch) -> dict[str, Any]:
    stored: dict[str, Any] = jsonpatch.apply_patch(json.loads(json.dumps(pod)), operations, in_place=True)
    return stored


def foreign(pod: dict[str, Any]) -> tuple[Any, ...]:
    """What no patch of ours may touch."""
    ours = keys.POD_OUTPUTS
    return (
        {k: v for k, v in (pod["metadata"].get("annotations") or {}).items() if k not in ours},
        {k: v for k, v in (pod["metadata"].get("labels") or {}).items() if k != keys.RESERVATION_LABEL},
        [t for t in pod["spec"].get("tolerations") or [] if t != TOLERATIONS[0]],
        [g for g in pod["spec"].get("schedulingGates") or [] if g["name"] != keys.GATE],
        pod["spec"]["containers"],
    )


def check_granted(pod: dict[str, Any]) -> dict[str, Any]:
    stored = applied(pod, podpatch.grant_operations(parts(pod), GRANT))
    view = decode_pod(raw(stored))
    assert podpatch.grant_operations(podpatch.parts_of(view), GRANT) == []
    assert reserved_toleration("h100") in view.tolerations
    assert not view.gated
    assert GRANT.annotations.items() <= view.annotations.items()
    assert not {keys.HELD, keys.HELD_UNTIL} & view.annotations.keys()
    return stored


def check_held(pod: dict[str, Any], hold: Hold) -> dict[str, Any]:
    stored = applied(pod, podpatch.hold_operations(parts(pod), hold))
    view = decode_pod(raw(stored))
    assert podpatch.hold_operations(podpatch.parts_of(view), hold) == []
    assert view.gates.count(keys.GATE) == 1
    assert view.annotations[keys.HELD] == hold.annotation
    assert (keys.HELD_UNTIL in view.annotations) == (hold.until is not None)
    assert not any(key.startswith("galends/") for key in view.annotations)
    return stored


def check_released(pod: dict[str, Any], *, strip: bool) -> dict[str, Any]:
    stored = applied(pod, podpatch.release_operations(parts(pod), strip=strip))
    view = decode_pod(raw(stored))
    assert podpatch.release_operations(podpatch.parts_of(view), strip=strip) == []
    assert not view.gated
    return stored


@pytest.mark.parametrize("seed", SEEDS)
def test_random_pods(seed: int) -> None:
    choice = random.Random(seed)
    for number in range(PODS // len(SEEDS)):
        pod = random_pod(choice)
        try:
            match choice.randint(0, 3):
                case 0:
                    stored = check_granted(pod)
                case 1:
                    stored = check_held(pod, choice.choice(HOLDS))
                case 2:
                    stored = check_granted(check_held(pod, choice.choice(HOLDS)))
                case _:
                    stored = check_released(pod, strip=choice.random() < 0.5)
            assert foreign(stored) == foreign(pod)
        except (AssertionError, jsonpatch.JsonPatchException) as error:
            error.add_note(f"seed {seed}, pod {number}: {json.dumps(pod)}")
            raise


def test_a_granted_pod_carries_the_annotations_of_the_published_contract() -> None:
    assert GRANT.annotations == {
        "gpures.dev/claim": "1764582000-1-9f3c",
        "galends/booking-reference": "sprint",
        "galends/pod-runtime-limit-seconds": "3600",
        "galends/guaranteed-until": "2026-12-01T13:00:00Z",
        "galends/guarantee-status": "guaranteed",
        "galends/reservation-kind": "booking",
        "galends/reservation-start": "2026-12-01T09:00:00Z",
        "galends/reservation-end": "2026-12-01T13:00:00Z",
        "galends/reservation-gpu-count": "2",
        "galends/gpu-class-name": "h100",
        "galends/admitted-at": "2026-12-01T12:00:00Z",
    }


def test_a_best_effort_grant_is_guaranteed_for_no_time_at_all() -> None:
    stub = a_reservation(end=9, wish=Wish("h100", 1, at(9), at(9), type=ReservationType.BEST_EFFORT))
    grant = podpatch.grant_of(stub, granted(1, 9, 9), a_class(display_name="H100"), Token("t"), at(12))
    assert grant.annotations["galends/pod-runtime-limit-seconds"] == "0"
    assert grant.annotations["galends/reservation-kind"] == "best_effort"
    assert grant.annotations["galends/gpu-class-name"] == "H100"


def test_only_our_gate_leaves_and_the_others_keep_their_order() -> None:
    pod = podpatch.PodParts(gates=("a", keys.GATE, "b", keys.GATE))
    operations = podpatch.release_operations(pod, strip=False)
    assert [operation["path"] for operation in operations] == ["/spec/schedulingGates/3", "/spec/schedulingGates/1"]


def test_a_toleration_that_is_only_alike_does_not_count_as_ours() -> None:
    pod = podpatch.PodParts(tolerations=(Toleration(keys.TAINT, "Exists", "", ""),))
    assert podpatch.grant_operations(pod, GRANT)[0]["path"] == "/spec/tolerations/-"


def test_a_reason_beside_the_policys_gate_is_not_foreign() -> None:
    notes = {keys.HELD: "Undecided: x"}
    assert podpatch.foreign_outputs(podpatch.PodParts(gates=(keys.GATE,), annotations=notes)) == []
    assert podpatch.foreign_outputs(podpatch.PodParts(annotations=notes)) == [keys.HELD]
