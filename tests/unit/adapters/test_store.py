"""The reflector's memory: what may move it on, and what may not."""

from dataclasses import dataclass, replace

from hypothesis import given
from hypothesis import strategies as st

from common.adapters.store import Store
from common.domain.reservation import ObjectKey

A, B, C = (ObjectKey("ns", name) for name in "abc")


@dataclass(frozen=True)
class Thing:
    key: ObjectKey
    version: str
    content: str = ""


class Told:
    """Records transitions, and checks that each one goes on from the one before."""

    def __init__(self) -> None:
        self.changes: list[tuple[Thing | None, Thing | None]] = []
        self.known: dict[ObjectKey, Thing] = {}

    def __call__(self, old: Thing | None, new: Thing | None) -> None:
        thing = new or old
        assert thing is not None
        assert self.known.get(thing.key) is old
        self.changes.append((old, new))
        if new is None:
            del self.known[thing.key]
        else:
            self.known[thing.key] = new


def thing(key: ObjectKey, version: int) -> Thing:
    return Thing(key, str(version))


def store_of(*things: Thing, version: int) -> tuple[Store[Thing], Told]:
    told = Told()
    store = Store[Thing](told)
    store.replace({t.key: t for t in things}, frozenset(), version)
    told.changes.clear()
    return store, told


def test_a_list_tells_only_what_differs() -> None:
    a, b = thing(A, 1), thing(B, 2)
    store, told = store_of(a, b, version=5)
    b2, c = thing(B, 7), thing(C, 6)
    store.replace({A: thing(A, 1), B: b2, C: c}, frozenset(), 8)
    assert told.changes == [(b, b2), (None, c)]
    assert store.get(A) is a, "what did not change stays the same value"
    store.replace({C: c}, frozenset(), 9)
    assert told.changes[2:] == [(a, None), (b2, None)]
    assert len(store) == 1
    assert list(store) == [c]


def test_an_object_that_is_listed_but_cannot_be_read_stays_as_known() -> None:
    a, b = thing(A, 1), thing(B, 2)
    store, told = store_of(a, b, version=5)
    store.replace({A: a}, frozenset({B}), 8)
    assert store.get(B) is b
    assert told.changes == []


def test_old_events_change_nothing() -> None:
    a = thing(A, 10)
    store, told = store_of(a, version=10)
    store.put(A, thing(A, 9))
    store.put(A, thing(A, 10))
    store.remove(A, 9)
    assert told.changes == []
    assert store.get(A) is a


def test_our_own_write_is_seen_at_once_and_its_event_tells_nothing_new() -> None:
    a = thing(A, 10)
    store, told = store_of(a, version=10)
    written = thing(A, 13)
    assert store.apply(A, written)
    assert told.changes == [(a, written)]
    store.put(A, thing(A, 12))  # somebody's change before ours
    store.put(A, thing(A, 13))
    assert store.get(A) is written
    assert len(told.changes) == 1
    assert not store.apply(A, thing(A, 11)), "the answer to an earlier write that comes late"


def test_an_answer_that_comes_after_the_deletion_does_not_resurrect() -> None:
    store, told = store_of(thing(A, 10), version=10)
    store.remove(A, 14)
    told.changes.clear()
    assert not store.apply(A, thing(A, 12))
    assert store.get(A) is None
    assert told.changes == []


def test_events_older_than_our_own_delete_do_not_resurrect() -> None:
    store, told = store_of(thing(A, 10), version=10)
    store.bury(A, 15)
    assert store.get(A) is None
    store.put(A, thing(A, 12))
    store.replace({A: thing(A, 12)}, frozenset(), 13)
    assert store.get(A) is None
    assert not store.apply(A, thing(A, 14))
    store.remove(A, 15)
    again = thing(A, 17)
    store.put(A, again)
    assert store.get(A) is again
    assert [new for _, new in told.changes] == [None, again]


def test_burying_spares_a_newer_object_of_the_same_name() -> None:
    again = thing(A, 20)
    store, _ = store_of(again, version=20)
    store.bury(A, 15)
    assert store.get(A) is again


def test_a_list_older_than_our_own_write_does_not_take_it_away() -> None:
    store, told = store_of(version=10)
    created = thing(A, 12)
    assert store.apply(A, created)
    store.replace({}, frozenset(), 11)
    assert store.get(A) is created
    store.replace({}, frozenset(), 14)
    assert told.changes[-1] == (created, None)


def test_after_a_restore_from_backup_only_the_list_counts() -> None:
    store, told = store_of(thing(A, 100), thing(B, 90), version=100)
    restored = thing(A, 40)
    store.replace({A: restored}, frozenset(), 50)
    assert store.get(A) is restored
    assert store.get(B) is None
    assert store.progress == 50
    store.put(A, thing(A, 51))
    assert told.known[A].version == "51"


def test_a_handler_that_applies_does_not_disturb_a_list_under_way() -> None:
    def on_change(_old: Thing | None, new: Thing | None) -> None:
        if new is not None and new.key == A:
            store.apply(C, thing(C, 30))

    store = Store[Thing](on_change)
    store.replace({A: thing(A, 1), B: thing(B, 2)}, frozenset(), 5)
    assert {t.key for t in store} == {A, B, C}


def test_bookmarks_move_progress_only_on() -> None:
    store, _ = store_of(version=10)
    store.reach(20)
    store.reach(15)
    assert store.progress == 20


@given(st.data())
def test_whatever_our_writes_return_and_however_late_the_end_is_the_cluster(data: st.DataObject) -> None:
    """A history of one object: its events come in order, answers to our writes at any time after they happened."""
    told = Told()
    store = Store[Thing](told)
    store.replace({}, frozenset(), 0)
    kinds = data.draw(st.lists(st.sampled_from(["write", "delete"]), min_size=1, max_size=12))
    history: list[tuple[int, Thing | None]] = [
        (version, thing(A, version) if kind == "write" else None) for version, kind in enumerate(kinds, start=1)
    ]
    pending = [entry for entry in history if data.draw(st.booleans())]
    happened = 0
    for version, now in history:
        happened = version
        while pending and pending[0][0] <= happened and data.draw(st.booleans()):
            written_version, written = pending.pop(data.draw(st.integers(0, _ready(pending, happened) - 1)))
            if written is None:
                store.bury(A, written_version)
            else:
                store.apply(A, written)
        if now is None:
            store.remove(A, version)
        else:
            store.put(A, replace(now))
    for written_version, written in pending:
        if written is None:
            store.bury(A, written_version)
        else:
            store.apply(A, written)
    assert store.get(A) == history[-1][1]
    assert told.known.get(A) == history[-1][1]


def _ready(pending: list[tuple[int, Thing | None]], happened: int) -> int:
    return sum(1 for version, _ in pending if version <= happened)


def test_a_list_counts_more_than_what_it_should_have_shown_and_does_not() -> None:
    """A restored etcd has come as far again as what was known before: no version tells."""
    lost = thing(A, 100)
    store, _ = store_of(lost, version=100)
    restored = thing(A, 40)
    store.replace({A: restored}, frozenset(), 120)
    assert store.get(A) is restored
