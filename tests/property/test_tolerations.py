"""Forgeries against a transcript of the scheduler's `Toleration.ToleratesTaint`."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from common.domain.gpu_class import Unit
from common.domain.keys import TAINT
from common.domain.pod import Toleration
from common.domain.tolerations import forged
from tests.property.profile import CALM
from tests.support.builders import GPU, a_class

CLASS = a_class()
NATIVE = a_class("slots", unit=Unit("slot", {"cpu": Decimal(2)}))
BOTH = {GPU: Decimal(1), "cpu": Decimal(2)}

tolerations = st.builds(
    Toleration,
    key=st.sampled_from(["", TAINT, "nvidia.com/gpu"]),
    operator=st.sampled_from(["", "Equal", "Exists"]),
    value=st.sampled_from(["", "h100", "a100"]),
    effect=st.sampled_from(["", "NoSchedule", "NoExecute", "PreferNoSchedule"]),
).filter(lambda t: bool(t.key) or t.operator == "Exists")
"""As the API server accepts them: without a key there must be Exists."""


def tolerates(toleration: Toleration, key: str, value: str, effect: str) -> bool:
    if toleration.effect and toleration.effect != effect:
        return False
    if toleration.key and toleration.key != key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == value
    return toleration.operator == "Exists"


@CALM
@given(st.lists(tolerations, max_size=3))
def test_whoever_the_scheduler_would_let_onto_reserved_nodes_is_found(held: list[Toleration]) -> None:
    if any(tolerates(t, TAINT, "h100", "NoSchedule") for t in held):
        assert forged(held, BOTH, [CLASS])


@CALM
@given(st.lists(tolerations, max_size=3))
def test_nobody_else_is_found_but_who_names_the_key_for_another_class(held: list[Toleration]) -> None:
    if forged(held, BOTH, [CLASS]):
        values = ("h100", *(t.value for t in held))
        assert any(tolerates(t, TAINT, value, "NoSchedule") for t in held for value in values)


@CALM
@given(st.lists(tolerations, max_size=3))
def test_a_pod_that_asks_for_no_unit_forges_nothing(held: list[Toleration]) -> None:
    assert not forged(held, {"memory": Decimal(1)}, [CLASS, NATIVE])


@CALM
@given(st.lists(tolerations, max_size=3))
def test_for_native_resources_only_the_key_itself_counts(held: list[Toleration]) -> None:
    exact = [t for t in held if t.key == TAINT]
    assert forged(held, BOTH, [NATIVE]) == forged(exact, BOTH, [NATIVE])
