"""The read model follows every change, and its sums are those that counting anew would give."""

import random  # noqa: TID251 - seeded

from common.domain.reservation import Reservation
from tests.support.builders import HOUR, NINE, a_class, a_reservation
from webhook.index import Index


def test_the_older_of_two_classes_has_the_label() -> None:
    index = Index()
    older, newer = a_class("a", label="x", created=NINE), a_class("b", label="x", created=NINE + HOUR)
    index.class_changed(None, newer)
    index.class_changed(None, older)
    assert index.class_of("x") is older
    index.class_changed(older, None)
    assert index.class_of("x") is newer
    index.class_changed(newer, None)
    assert index.class_of("x") is None
    assert list(index.labels) == []


def test_a_class_in_conflict_decides_nothing() -> None:
    index = Index()
    index.class_changed(None, a_class("a", label="x", conflict=True))
    assert index.class_of("x") is None
    assert index.class_named("a") is not None


def test_a_class_that_changes_its_label_leaves_the_old_one() -> None:
    index = Index()
    old, new = a_class("a", label="x"), a_class("a", label="y")
    index.class_changed(None, old)
    index.class_changed(old, new)
    assert index.class_of("x") is None
    assert index.class_of("y") is new


def test_sums_hold_through_any_order_of_changes() -> None:
    choice = random.Random(7)
    index, known = Index(), dict[str, Reservation]()
    for step in range(2000):
        name = f"r{choice.randint(0, 20)}"
        old = known.pop(name, None)
        new = None
        if old is None or choice.random() < 0.7:
            gpu_class = old.wish.gpu_class if old else choice.choice(("h100", "a100"))
            claims = {f"{step}-{n}": choice.randint(1, 3) for n in range(choice.randint(0, 4))}
            new = known[name] = a_reservation(name, f"ns{name}", gpu_class=gpu_class, claims=claims)
        index.reservation_changed(old, new)
    for gpu_class in ("h100", "a100"):
        mine = [r for r in known.values() if r.wish.gpu_class == gpu_class]
        assert index.claimed(gpu_class) == sum(r.claimed for r in mine)
        assert {r.key for r in index.of_class(gpu_class)} == {r.key for r in mine}
    for name, reservation in known.items():
        assert list(index.of_namespace(f"ns{name}")) == [reservation]
        assert index.reservation(reservation.key) is reservation
    for reservation in list(known.values()):
        index.reservation_changed(reservation, None)
    assert index.claimed("h100") == 0
    assert list(index.of_class("h100")) == []
