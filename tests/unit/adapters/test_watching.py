"""Lines and pages to transitions, and lines out of pieces."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from common.adapters.kinds import PODS
from common.adapters.lines import Lines
from common.adapters.store import Store
from common.adapters.watching import Listing, decode_page, take_line
from common.domain.errors import Gone, MalformedObject, OutcomeUnknown, Throttled
from common.domain.pod import PodView
from common.domain.reservation import ObjectKey
from tests.support import manifests

KEY = ObjectKey("alice", "trainer-0")


def line(kind: str, content: object) -> bytes:
    return json.dumps({"type": kind, "object": content}).encode()


@pytest.fixture
def store() -> Store[PodView]:
    return Store(lambda _old, _new: None)


def test_events_in_their_turn(store: Store[PodView]) -> None:
    assert take_line(PODS, store, line("ADDED", manifests.a_pod(version="5"))) is None
    assert take_line(PODS, store, line("MODIFIED", manifests.a_pod(version="6", gpus=4))) is None
    known = store.get(KEY)
    assert known is not None
    assert known.version == "6"
    assert take_line(PODS, store, line("BOOKMARK", {"metadata": {"resourceVersion": "9"}})) is None
    assert store.progress == 9
    assert take_line(PODS, store, line("DELETED", manifests.a_pod(version="11"))) is None
    assert len(store) == 0
    assert store.progress == 11


def test_an_event_whose_object_cannot_be_read_is_passed_over(store: Store[PodView]) -> None:
    take_line(PODS, store, line("ADDED", manifests.a_pod(version="5")))
    wrong = take_line(PODS, store, line("MODIFIED", manifests.a_pod(version="6", gpus="many")))
    assert isinstance(wrong, MalformedObject)
    known = store.get(KEY)
    assert known is not None
    assert known.version == "5", "what was known stays (R4)"
    assert store.progress == 6
    take_line(PODS, store, line("DELETED", manifests.a_pod(version="7", gpus="many")))
    assert len(store) == 0, "that it is gone can be read all the same"


def test_error_events(store: Store[PodView]) -> None:
    with pytest.raises(Gone):
        take_line(PODS, store, line("ERROR", {"code": 410, "message": "too old resource version"}))
    with pytest.raises(Throttled) as throttled:
        take_line(PODS, store, line("ERROR", {"code": 429, "details": {"retryAfterSeconds": 7}}))
    assert throttled.value.retry_after_s == 7
    with pytest.raises(OutcomeUnknown):
        take_line(PODS, store, line("ERROR", "what?"))


@pytest.mark.parametrize("garbage", [b"", b"{", b"[]", b'{"type": "ADDED"}', b"\xff"])
def test_a_line_that_is_no_event_is_an_error(store: Store[PodView], garbage: bytes) -> None:
    with pytest.raises(MalformedObject):
        take_line(PODS, store, garbage)


def test_a_list_names_what_it_cannot_read(store: Store[PodView]) -> None:
    page = decode_page(
        json.dumps(
            {
                "metadata": {"resourceVersion": "20", "continue": "more"},
                "items": [manifests.a_pod("a"), manifests.a_pod("b", gpus="many"), {"metadata": 3}],
            }
        ).encode()
    )
    assert page.metadata.continue_ == "more"
    listing = Listing(PODS)
    problems = [listing.take(item) for item in page.items or ()]
    assert [problem is None for problem in problems] == [True, False, False]
    assert listing.unreadable == {ObjectKey("alice", "b")}
    listing.finish(store, page.metadata.resource_version)
    assert [pod.name for pod in store] == ["a"]
    assert store.progress == 20


def test_no_list_at_all() -> None:
    with pytest.raises(MalformedObject):
        decode_page(b"<html>")
    assert decode_page(b'{"metadata": {"resourceVersion": "1"}, "items": null}').items is None


@given(st.lists(st.binary().map(lambda raw: raw.replace(b"\n", b""))), st.lists(st.integers(1, 40)))
def test_lines_come_out_as_they_went_in(sent: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in sent) + b"rest"
    split = Lines()
    got: list[bytes] = []
    for size in cuts:
        got += split.feed(stream[:size])
        stream = stream[size:]
    got += split.feed(stream)
    assert got == [line for line in sent if line]


def test_a_line_without_end_is_refused() -> None:
    split = Lines(longest=10)
    split.feed(b"12345")
    with pytest.raises(OutcomeUnknown):
        split.feed(b"678901")
