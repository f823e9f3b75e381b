"""Single decisions of the planner; what they add up to over years is in tests/property."""

from dataclasses import replace
from datetime import timedelta

import pytest

from certs.rotation import MOST_TRUSTED, Bundle, Ca, Inject, IssueCa, IssueLeaf, Leaf, Remember, Settings, plan, serves
from certs.validity import Validity, made
from tests.support.clock import NOON

NAME = "gpures-webhook.gpures-system.svc"
DAY = timedelta(days=1)
LONG = timedelta(hours=1)
RULES = Settings(NAME, timedelta(minutes=2), DAY)
OURS = Ca("ours", made(NOON - 30 * DAY, 3650 * DAY))
LEAF = Leaf("ours", frozenset({NAME}), made(NOON - 2 * DAY, 90 * DAY))
SETTLED = Bundle(OURS, LEAF, (OURS,), ((OURS,), (OURS,)), LONG, LONG)
FUTURE, PAST = Validity(NOON + DAY, NOON + 90 * DAY), Validity(NOON - 90 * DAY, NOON - DAY)
DUE = Validity(NOON - 80 * DAY, NOON + 10 * DAY)


def aged(valid: Validity) -> Bundle:
    return replace(SETTLED, leaf=replace(LEAF, valid=valid))


def test_what_is_settled_is_left_alone_until_the_leaf_is_due() -> None:
    assert plan(SETTLED, NOON, RULES).steps == ()
    assert plan(SETTLED, NOON, RULES).again == LEAF.valid.renewal


@pytest.mark.parametrize(
    ("bundle", "why"),
    [
        (replace(SETTLED, leaf=None), "there is none"),
        (aged(PAST), "it has ended"),
        (aged(FUTURE), "it has not begun: the clock was set back"),
        (aged(DUE), "it is due"),
        (replace(SETTLED, leaf=replace(LEAF, names=frozenset({"other.svc"}))), "it is for another name"),
        (replace(SETTLED, leaf=replace(LEAF, issuer="")), "it is of another CA"),
    ],
)
def test_why_a_leaf_is_made(bundle: Bundle, why: str) -> None:
    assert plan(bundle, NOON, RULES).steps == (IssueLeaf((OURS,), why),)


@pytest.mark.parametrize(
    ("valid", "why"),
    [
        (PAST, "it has ended"),
        (FUTURE, "it has not begun: the clock was set back"),
    ],
)
def test_a_ca_that_does_not_hold_is_replaced_though_it_signed_nothing(valid: Validity, why: str) -> None:
    bundle = replace(SETTLED, ca=Ca("ours", valid), leaf=None)
    assert plan(bundle, NOON, RULES).steps == (IssueCa(why),)


def test_a_ca_that_is_due_signs_first_what_it_was_made_for() -> None:
    ca = replace(OURS, valid=DUE)
    settled = replace(SETTLED, ca=ca, remembered=(ca,), injected=((ca,),))
    assert plan(settled, NOON, RULES).steps == (IssueCa("it is due"),)
    unfinished = replace(settled, leaf=replace(LEAF, issuer="another"))
    assert plan(unfinished, NOON, RULES).steps == (IssueLeaf((ca,), "it is of another CA"),)


def test_a_bundle_has_an_end_and_the_issuer_of_the_leaf_is_in_it() -> None:
    many = tuple(Ca(f"ca-{n}", made(NOON - n * DAY, 3650 * DAY)) for n in range(1, 9))
    bundle = replace(SETTLED, leaf=replace(LEAF, issuer="ca-8"), remembered=many)
    remember, inject = plan(bundle, NOON, RULES).steps
    assert isinstance(remember, Remember)
    assert isinstance(inject, Inject)
    assert [ca.id for ca in remember.cas] == ["ours", "ca-8", "ca-1", "ca-2", "ca-3"]
    assert len(inject.cas) == MOST_TRUSTED


def test_an_unreadable_memory_is_written_over() -> None:
    assert plan(replace(SETTLED, remembered=()), NOON, RULES).steps == (Remember((OURS,)),)


@pytest.mark.parametrize(
    ("bundle", "served"),
    [
        (SETTLED, True),
        (replace(SETTLED, injected=()), True),
        (aged(DUE), True),
        (aged(PAST), False),
        (replace(SETTLED, leaf=None), False),
        (replace(SETTLED, leaf=replace(LEAF, names=frozenset())), False),
        (replace(SETTLED, injected=((OURS,), ())), False),
        (replace(SETTLED, injected=((replace(OURS, valid=PAST),),)), False),
    ],
)
def test_what_can_be_served(bundle: Bundle, *, served: bool) -> None:
    assert serves(bundle, NOON, RULES) is served
