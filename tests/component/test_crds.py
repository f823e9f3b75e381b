"""R1 (never over budget), phases and the promise: rules of the schema, judged by a real API server."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.component.builders import reservation
from tests.component.rows import END, START, TERMINAL, Rows, refused
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.install import install_crds

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install_crds(control_plane.admin)
    return control_plane.admin


@pytest.fixture
def rows(admin: ApiClient, namespace: str) -> Rows:
    return Rows(admin, namespace)


# ------------------------------------------------------------------------------------------- R1, never over budget


def test_forty_claims_at_once_take_exactly_the_eight_units(rows: Rows) -> None:
    row = rows.confirmed(8)
    uid = rows.get(row)["metadata"]["uid"]

    def claim(number: int) -> int:
        try:
            rows.claim(row, f"1764582000-1-pod{number}", 1, uid=uid)
        except ApiError as error:
            return error.code
        return 200

    with ThreadPoolExecutor(40) as pool:
        answers = Counter(pool.map(claim, range(40)))
    assert answers == {200: 8, 422: 32}
    assert sum(rows.claims(row).values()) == 8


def test_claims_of_unequal_size_at_once_never_exceed_the_promise(rows: Rows) -> None:
    row = rows.confirmed(8)
    uid = rows.get(row)["metadata"]["uid"]

    def claim(number: int) -> int:
        units = 1 + number % 3
        try:
            rows.claim(row, f"1764582000-{units}-pod{number}", units, uid=uid)
        except ApiError:
            return 0
        return units

    with ThreadPoolExecutor(20) as pool:
        accepted = sum(pool.map(claim, range(40)))
    assert accepted == sum(rows.claims(row).values()) == 8


@pytest.mark.parametrize("phase", ["Pending", "Confirming", *TERMINAL])
def test_a_claim_without_a_promise_is_refused(rows: Rows, phase: str) -> None:
    row = rows.create()
    rows.status(row, {"phase": phase, "claims": {}})
    assert "claims need a Confirmed or Active reservation" in refused(lambda: rows.claim(row, "1-1-a", 1))


def test_a_claim_sent_together_with_the_phase_that_forbids_it_is_refused(rows: Rows) -> None:
    row = rows.confirmed(8)
    cancel = {"phase": "Canceled", "granted": None, "claims": {"1-1-a": 1}}
    assert "claims need a Confirmed or Active reservation" in refused(lambda: rows.status(row, cancel))


def test_a_claim_on_another_reservation_of_the_same_name_is_refused(rows: Rows) -> None:
    row = rows.confirmed(8)
    refused(lambda: rows.claim(row, "1-1-a", 1, uid="another"))
    assert rows.claims(row) == {}


def test_the_promise_may_shrink_below_the_claims(rows: Rows) -> None:
    row = rows.confirmed(8, {"1-4-a": 4, "1-4-b": 4})
    rows.status(row, {"granted": {"units": 3}})
    assert rows.get(row)["status"]["granted"]["units"] == 3


def test_a_release_passes_while_over_budget(rows: Rows) -> None:
    row = rows.confirmed(8, {"1-4-a": 4, "1-4-b": 4})
    rows.status(row, {"granted": {"units": 3}})
    rows.status(row, {"claims": {"1-4-a": None}})
    assert rows.claims(row) == {"1-4-b": 4}


def test_a_new_claim_in_place_of_a_release_is_refused_while_over_budget(rows: Rows) -> None:
    row = rows.confirmed(8, {"1-4-a": 4, "1-4-b": 4})
    rows.status(row, {"granted": {"units": 3}})
    swap = {"claims": {"1-4-a": None, "1-1-c": 1}}
    assert "must fit into status.granted.units" in refused(lambda: rows.status(row, swap))


def test_a_claim_may_not_grow_over_the_promise(rows: Rows) -> None:
    row = rows.confirmed(2, {"1-1-a": 1})
    assert "must fit into status.granted.units" in refused(lambda: rows.status(row, {"claims": {"1-1-a": 3}}))


def test_a_claim_may_be_released_after_the_end(rows: Rows) -> None:
    row = rows.confirmed(2, {"1-1-a": 1, "1-1-b": 1})
    rows.status(row, {"phase": "Ended", "granted": None})
    rows.status(row, {"claims": {"1-1-a": None}})
    assert rows.claims(row) == {"1-1-b": 1}


@pytest.mark.parametrize("token", ["abc", "1-x-a", "1-1-A", "1--a", f"1-1-{'a' * 100}"])
def test_a_token_of_another_form_is_refused(rows: Rows, token: str) -> None:
    row = rows.confirmed(8)
    assert "a token is" in refused(lambda: rows.claim(row, token, 1))


@pytest.mark.parametrize("units", [0, -1])
def test_a_claim_of_nothing_is_refused(rows: Rows, units: int) -> None:
    row = rows.confirmed(8)
    assert "greater than or equal to 1" in refused(lambda: rows.claim(row, "1-0-a", units))


def test_a_reservation_holds_1024_claims_and_no_more(rows: Rows) -> None:
    row = rows.confirmed(2000)
    rows.status(row, {"claims": {f"1-1-{number}": 1 for number in range(1024)}})
    assert "1024" in refused(lambda: rows.claim(row, "1-1-more", 1))


# ----------------------------------------------------------------------------------------- phases and the promise


@pytest.mark.parametrize("phase", TERMINAL)
def test_a_final_phase_cannot_be_left(rows: Rows, phase: str) -> None:
    row = rows.create()
    rows.status(row, {"phase": phase})
    assert "are final" in refused(lambda: rows.status(row, {"phase": "Active"}))


def test_a_final_phase_cannot_be_left_by_dropping_the_status(rows: Rows) -> None:
    row = rows.create()
    rows.status(row, {"phase": "Canceled"})
    assert "are final" in refused(lambda: rows.status(row, None))


@pytest.mark.parametrize("phase", ["Pending", "Confirming", *TERMINAL])
def test_only_confirmed_and_active_hold_a_promise(rows: Rows, phase: str) -> None:
    row = rows.create()
    status = {"phase": phase, "granted": {"start": START, "end": END, "units": 1}}
    assert "holds a promise" in refused(lambda: rows.status(row, status))


def test_the_promise_goes_in_the_write_that_cancels(rows: Rows) -> None:
    row = rows.confirmed(1)
    assert "holds a promise" in refused(lambda: rows.status(row, {"phase": "Canceled"}))


def test_a_promise_of_zero_length_is_valid(rows: Rows) -> None:
    row = rows.create()
    rows.status(row, {"phase": "Active", "granted": {"start": START, "end": START, "units": 1}})
    assert rows.get(row)["status"]["granted"]["end"] == START


def test_a_status_sent_at_creation_is_dropped(rows: Rows) -> None:
    stored = rows.admin.create(
        reservation("forged") | {"status": {"phase": "Active", "granted": {"start": START, "end": END, "units": 8}}},
        namespace=rows.namespace,
    ).object
    assert stored["status"] == {"phase": "Pending"}
