"""Which incoming pods bring their own way onto reserved nodes."""

from decimal import Decimal

import pytest

from common.domain.gpu_class import Unit
from common.domain.keys import TAINT
from common.domain.pod import Toleration
from common.domain.tolerations import forged, reserved_toleration
from tests.support.builders import GPU, a_class, a_pod

ASKS = {GPU: Decimal(1), "cpu": Decimal(1)}
NATIVE = a_class("slots", unit=Unit("slot", {"cpu": Decimal(2)}))
WILDCARD = Toleration(operator="Exists")


@pytest.mark.parametrize(
    "toleration",
    [
        reserved_toleration("h100"),
        Toleration(TAINT, "", "h100", "NoSchedule"),
        Toleration(TAINT, "Exists", "", "NoSchedule"),
        Toleration(TAINT, "Exists"),
        Toleration(TAINT, "Equal", "another", ""),
        Toleration(TAINT, "Gt", "1", "NoSchedule"),
        WILDCARD,
        Toleration(operator="Exists", effect="NoSchedule"),
    ],
)
def test_every_form_that_reaches_the_taint_is_a_forgery(toleration: Toleration) -> None:
    assert forged([toleration], ASKS, [a_class()])


@pytest.mark.parametrize(
    "toleration",
    [
        Toleration(TAINT, "Equal", "h100", "NoExecute"),
        Toleration(TAINT, "Exists", "", "PreferNoSchedule"),
        Toleration("nvidia.com/gpu", "Exists"),
        Toleration(operator="Exists", effect="NoExecute"),
    ],
)
def test_what_does_not_reach_the_taint_is_no_forgery(toleration: Toleration) -> None:
    assert not forged([toleration], ASKS, [a_class()])


def test_node_agents_that_ask_for_no_unit_may_tolerate_the_taint() -> None:
    assert not forged([reserved_toleration("h100"), WILDCARD], {"cpu": Decimal(1)}, [a_class()])


def test_where_units_are_native_resources_only_the_exact_key_counts() -> None:
    assert not forged([WILDCARD], ASKS, [NATIVE])
    assert forged([reserved_toleration("slots")], ASKS, [NATIVE])


def test_a_wildcard_is_a_forgery_when_any_class_counts_gpus() -> None:
    assert forged([WILDCARD], ASKS, [NATIVE, a_class()])


def test_without_a_class_nothing_is_forged() -> None:
    assert not forged([reserved_toleration("h100")], ASKS, [])


def test_the_toleration_that_we_add_is_the_one_that_makes_a_pod_admitted() -> None:
    assert a_pod(tolerations=(reserved_toleration("h100"),)).admitted
    assert not a_pod(tolerations=(reserved_toleration("h100"),), gated=True).admitted
    assert not a_pod(tolerations=(reserved_toleration("a100"),)).admitted
