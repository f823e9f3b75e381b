"""Which pods are left alone whatever is booked, and what they are told."""

from common.domain import routing
from common.domain.gpu_class import GpuClass, Mode
from common.domain.reasons import Reason
from common.domain.routing import Ask, Pass
from tests.support.builders import a_class


def concerns(gpu_class: GpuClass | None, units: int = 1, known: tuple[str, ...] = ("a100", "h100")) -> Pass | None:
    return routing.concerns(gpu_class, Ask("alice", "hl00", units, {}), known)


def told(passed: Pass | None) -> Reason | None:
    assert passed is not None
    return passed.told.reason if passed.told is not None else None


def test_a_cluster_without_classes_is_untouched() -> None:
    assert concerns(None, known=()) == Pass()


def test_an_unknown_class_passes_and_is_told() -> None:
    assert told(concerns(None)) is Reason.UNKNOWN_GPU_CLASS


def test_a_pod_that_asks_for_no_unit_passes_and_is_told_which_resource() -> None:
    passed = concerns(a_class(), units=0)
    assert told(passed) is Reason.NO_GPU_REQUEST
    assert passed is not None
    assert passed.told is not None
    assert "asks for no nvidia.com/gpu" in passed.told.sentence


def test_a_class_that_only_observes_says_nothing() -> None:
    assert concerns(a_class(mode=Mode.OBSERVE)) == Pass()


def test_a_pod_of_a_known_class_needs_an_answer() -> None:
    assert concerns(a_class()) is None
    assert concerns(a_class(mode=Mode.WARN)) is None
