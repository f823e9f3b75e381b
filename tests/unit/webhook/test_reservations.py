"""Stamps and early answers for GPUReservations; every row of their table."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import pytest

from common.adapters.wire.reservation import ReservationWire
from common.domain.gpu_class import GpuClass, Limits
from common.domain.reservation import Phase, Reservation, Wish
from common.domain.texts import Display
from tests.support.builders import HOUR, a_class, a_reservation, at, granted
from tests.support.clock import NOON, FakeClock
from tests.support.manifests import of_reservation
from tests.unit.webhook.scene import after, annotations, read, review
from tests.unit.webhook.tables import rows
from webhook.index import Index
from webhook.reservations import Stamp, Stamped, Validator
from webhook.review import Decision

COUNTED = a_class(free=4)


def wish(units: int = 1, hours: int = 1, **fields: Any) -> Wish:
    return Wish("h100", units, **{"start": at(13), "duration": hours * HOUR, **fields})


def wanted(name: str = "new", **fields: Any) -> Reservation:
    return a_reservation(name, phase=Phase.PENDING, wish=wish(**fields))


ACTIVE = a_reservation(phase=Phase.ACTIVE, claims={"a": 1, "b": 1})


@dataclass(frozen=True)
class Case:
    new: Reservation | None = field(default_factory=wanted)
    old: Reservation | None = None
    gpu_class: GpuClass = COUNTED
    others: tuple[Reservation, ...] = ()
    says: str = ""
    synced: bool = True
    uncertainty: timedelta = timedelta(milliseconds=20)

    async def run(self) -> Decision:
        index = Index()
        index.class_changed(None, self.gpu_class)
        for reservation in self.others:
            index.reservation_changed(None, reservation)
        clock = FakeClock(uncertainty=self.uncertainty)
        validator = Validator(index, clock, lambda: self.synced, Display())
        new = of_reservation(self.new) if self.new else None
        old = of_reservation(self.old) if self.old else None
        return await validator.decide(read(ReservationWire, review(new, old=old)), 4.5)


CASES: dict[str, Case] = {
    "fits": Case(),
    "longer than maxDuration": Case(
        wanted(hours=9), gpu_class=replace(COUNTED, limits=Limits(8 * HOUR)), says="9h asked, maxDuration is 8h"
    ),
    "starts after maxAhead": Case(wanted(start=at(24 * 60)), says="maxAhead is 30d"),
    "namespace not in limits.namespaces": Case(
        gpu_class=replace(COUNTED, limits=Limits(namespaces=("bob",))), says="namespace alice may not reserve h100"
    ),
    "more than maxReservationsPerNamespace": Case(
        gpu_class=replace(COUNTED, limits=Limits(max_reservations_per_namespace=1)),
        others=(a_reservation("first", phase=Phase.PENDING),),
        says="namespace alice has 1 live h100 reservation, maxReservationsPerNamespace is 1",
    ),
    "starts in the past": Case(replace(wanted(start=at(11)), created=NOON), says="is in the past"),
    "more units than are free": Case(
        wanted(units=4),
        others=(a_reservation("other", "bob", start=13, end=15),),
        says="h100: 4 units asked 2026-12-01 13:00–14:00 UTC, only 2 free from 13:00; "
        "first slot for 4 units × 1h: 2026-12-01 15:00 UTC",
    ),
    "unknown class of a reservation": Case(
        replace(wanted(), wish=replace(wish(), gpu_class="hl00")), says='no class "hl00"; did you mean "h100"'
    ),
    "class not counted yet": Case(wanted(units=4000), gpu_class=a_class(free=None)),
    "extended beyond what is free": Case(
        replace(ACTIVE, wish=replace(ACTIVE.wish, units=2, end=at(20))),
        old=ACTIVE,
        others=(ACTIVE, a_reservation("other", "bob", units=4, start=18, end=22)),
        says="not extended to 20:00: 0 h100 free from 18:00 UTC; longest possible end 18:00; yours until 13:00 UTC",
    ),
    "active one deleted while pods use it": Case(
        None,
        old=ACTIVE,
        says="sprint ended: 2 pods run on without guarantee and may be stopped when others need the GPUs",
    ),
    "active one cancelled while pods use it": Case(
        replace(ACTIVE, wish=replace(ACTIVE.wish, cancel=True)), old=ACTIVE, says="sprint ended: 2 pods run on"
    ),
    "view of reservations not synced": Case(wanted(units=4000), synced=False),
}


def test_the_page_and_the_cases_are_of_one_mind() -> None:
    assert set(rows("Reservations")) == set(CASES)


@pytest.mark.parametrize("what", CASES)
async def test_reservation(what: str) -> None:
    case, row = CASES[what], rows("Reservations")[what]
    response = (await case.run()).response
    assert response.allowed == (row.answer == "**as it came**")
    assert response.patch == b""
    said = "\n".join(response.warnings) + (response.status.message if response.status else "")
    assert case.says in said
    assert bool(said) == bool(case.says)


async def test_nothing_is_judged_while_the_time_is_not_known() -> None:
    decision = await Case(wanted(start=at(11)), uncertainty=timedelta.max).run()
    assert decision.response.allowed


async def test_a_change_of_metadata_is_not_judged_again() -> None:
    running = a_reservation(start=2, end=20)
    assert (await Case(running, old=running).run()).response.warnings == ()


@pytest.mark.parametrize(
    "old",
    [
        a_reservation(phase=Phase.ACTIVE),
        a_reservation(start=15, end=16, granted=granted(2, 15, 16), claims={"a": 1}),
        a_reservation(phase=Phase.PENDING),
    ],
    ids=["unused", "not open yet", "pending"],
)
async def test_deleting_what_nobody_uses_warns_of_nothing(old: Reservation) -> None:
    assert (await Case(None, old=old).run()).response.warnings == ()


async def stamped(new: dict[str, Any], old: dict[str, Any] | None = None, user: str = "alice") -> dict[str, str]:
    request = read(Stamped, review(new, old=old, user=user))
    return annotations(after(new, await Stamp().decide(request, 4.5)))


def manifest(units: int = 1, **notes: str) -> dict[str, Any]:
    shape = of_reservation(wanted(units=units))
    if notes:
        shape["metadata"]["annotations"] = {f"gpures.dev/{key.replace('_', '-')}": v for key, v in notes.items()}
    return shape


async def test_a_new_reservation_is_stamped_with_the_user_of_the_request_and_nobody_else() -> None:
    both = {"gpures.dev/created-by": "alice", "gpures.dev/changed-by": "alice"}
    assert await stamped(manifest()) == both
    assert await stamped(manifest(created_by="root", changed_by="root")) == both


async def test_a_changed_spec_names_who_changed_it() -> None:
    old = manifest(created_by="alice", changed_by="alice")
    new = manifest(units=2, created_by="mallory", changed_by="mallory")
    assert await stamped(new, old, user="bob") == {"gpures.dev/created-by": "alice", "gpures.dev/changed-by": "bob"}


async def test_other_changes_leave_the_stamps_as_they_are() -> None:
    old = manifest(created_by="alice", changed_by="alice")
    forged = manifest(created_by="mallory", changed_by="mallory")
    assert await stamped(forged, old, user="bob") == annotations(old)
    assert await stamped(manifest(), old, user="bob") == annotations(old)


async def test_the_stamp_is_written_once() -> None:
    new = manifest(created_by="alice", changed_by="alice")
    decision = await Stamp().decide(read(Stamped, review(new)), 4.5)
    assert decision.response.patch == b""
