"""Counts of a class from nodes, pods and reservations."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from common.domain import inventory, tokens
from common.domain.gpu_class import ClassUnits, GpuClass, Unit
from common.domain.pod import NodeView, PodPhase, PodView
from common.domain.reservation import Phase, Reservation
from tests.support.builders import NINE, a_class, a_node, a_pod, a_reservation

SLOTS = a_class("slots", unit=Unit("slot", {"cpu": Decimal(2)}))
TOKEN = "1-2-x"


def counted(
    nodes: Sequence[NodeView],
    pods: Sequence[PodView] = (),
    reservations: Sequence[Reservation] = (),
    gpu_class: GpuClass | None = None,
) -> ClassUnits:
    return inventory.count(gpu_class or a_class(), nodes, pods, reservations, NINE).units


def running(name: str, node: str = "node-1", **other: Any) -> PodView:
    return a_pod(name, node=node, phase=PodPhase.RUNNING, **other)


def test_an_empty_class_has_nothing() -> None:
    assert counted([]) == ClassUnits()


def test_physical_counts_every_node_and_schedulable_those_that_take_pods() -> None:
    units = counted([a_node("a"), a_node("b", ready=False), a_node("c", cordoned=True)])
    assert (units.physical, units.schedulable, units.free, units.largest_block) == (24, 8, 8, 8)


def test_the_largest_block_is_on_one_node() -> None:
    pods = [running("x", "a", gpus=3, token="1-3-x"), running("y", "b", gpus=3, token="1-3-y")]
    units = counted([a_node("a", gpus=4), a_node("b", gpus=4)], pods)
    assert (units.free, units.largest_block) == (2, 1)


def test_a_node_with_more_than_it_has_stays_negative_in_the_sum() -> None:
    pods = [running("x", "a", gpus=3, token="1-3-x")]
    units = counted([a_node("a", gpus=1), a_node("b", gpus=4)], pods)
    assert (units.free, units.largest_block) == (2, 4)


def test_what_runs_without_a_claim_is_unreserved_and_not_bookable() -> None:
    units = counted([a_node()], [running("x", gpus=3), running("y", gpus=2, token=TOKEN)], gpu_class=a_class(spare=1))
    assert (units.unreserved, units.spare, units.bookable, units.free) == (3, 1, 4, 3)


def test_a_pod_without_the_label_that_takes_gpus_of_the_class_is_unreserved() -> None:
    units = counted([a_node()], [running("x", gpus=2, gpu_class="")])
    assert (units.unreserved, units.free) == (2, 6)


def test_a_pod_that_has_ended_takes_nothing() -> None:
    assert counted([a_node()], [a_pod(node="node-1", phase=PodPhase.SUCCEEDED)]).free == 8


def test_a_claim_takes_free_units_before_its_pod_is_bound_and_once_only_afterwards() -> None:
    reservation = a_reservation(claims={TOKEN: 2})
    before = counted([a_node()], [a_pod(gpus=2, token=TOKEN, admitted=True)], [reservation])
    after = counted([a_node()], [running("x", gpus=2, token=TOKEN, admitted=True)], [reservation])
    assert (before.claimed, before.free) == (2, 6)
    assert (after.claimed, after.free, after.unreserved) == (2, 6, 0)


def test_a_claim_whose_pod_nobody_has_seen_takes_free_units() -> None:
    assert counted([a_node()], [], [a_reservation(claims={TOKEN: 2})]).free == 6


def test_a_pod_that_was_let_in_and_never_placed_takes_no_units_once_its_reservation_is_over() -> None:
    pod = a_pod(gpus=2, token=TOKEN, admitted=True)
    assert counted([a_node()], [pod], [a_reservation(claims={TOKEN: 2})]).free == 6
    assert counted([a_node()], [pod], [a_reservation(claims={TOKEN: 2}, phase=Phase.ENDED)]).free == 8
    assert counted([a_node()], [pod]).free == 8


def test_a_claim_made_for_a_stored_pod_counts_before_the_pod_carries_it() -> None:
    pod = a_pod(gpus=2, gated=True)
    assert counted([a_node()], [pod], [a_reservation(claims={tokens.for_pod(pod, 2): 2})]).free == 6


def test_pods_on_a_cordoned_node_free_nothing_elsewhere() -> None:
    nodes = [a_node("a", cordoned=True), a_node("b")]
    units = counted(nodes, [running("x", "a", gpus=4, token=TOKEN)], [a_reservation(claims={TOKEN: 4})])
    assert (units.free, units.schedulable) == (8, 8)


def test_reserved_is_what_is_promised_at_this_instant() -> None:
    now, later = a_reservation(units=2), a_reservation("later", units=3, start=10)
    ended = a_reservation("ended", phase=Phase.ENDED, claims={TOKEN: 2})
    units = counted([a_node()], [], [now, later, ended])
    assert (units.reserved, units.claimed) == (2, 2)


def test_native_resources_lose_what_others_use_on_the_node() -> None:
    node = a_node(gpu_class="slots", allocatable={"cpu": Decimal(127)}, capacity={"cpu": Decimal(128)})
    agent = running("agent", gpu_class="", requests={"cpu": Decimal("1.5"), "example.com/x": Decimal(9)})
    ours = running("ours", gpu_class="slots", requests={"cpu": Decimal(4)}, token="1-2-x")
    units = counted([node], [agent, ours], gpu_class=SLOTS)
    assert (units.physical, units.free, units.unreserved) == (64, 60, 0)


def test_native_pods_of_others_count_only_on_the_nodes_of_the_class() -> None:
    node = a_node(gpu_class="slots", allocatable={"cpu": Decimal(8)}, capacity={"cpu": Decimal(8)})
    elsewhere = running("agent", "other-node", gpu_class="", requests={"cpu": Decimal(4)})
    assert counted([node], [elsewhere], gpu_class=SLOTS).free == 4


def test_rooms_are_the_schedulable_nodes_with_what_is_free_on_each() -> None:
    nodes = [a_node("a", gpus=4), a_node("b", ready=False)]
    count = inventory.count(a_class(), nodes, [running("x", "a", gpus=1, token=TOKEN)], [], NINE)
    assert [(room.node.name, room.free) for room in count.rooms] == [("a", 3)]


def test_the_last_count_is_brought_up_to_date_with_claims_made_since() -> None:
    stale = a_class(units=ClassUnits(free=5, claimed=3))
    assert inventory.free_now(stale, 3) == 5
    assert inventory.free_now(stale, 5) == 3
    assert inventory.free_now(stale, 1) == 7


def test_a_class_that_nobody_has_counted_is_not_empty() -> None:
    assert inventory.free_now(a_class(free=None), 0) is None
