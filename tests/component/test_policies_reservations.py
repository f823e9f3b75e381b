"""What people may write into a reservation, judged by the API server while no process of ours runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.component.builders import RESERVATIONS, reservation
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install

pytestmark = pytest.mark.controlplane

CREATED_BY, CHANGED_BY = "gpures.dev/created-by", "gpures.dev/changed-by"
RECONCILER = "system:serviceaccount:gpures-system:gpures-reconciler"
START, END = "2026-12-01T09:00:00Z", "2026-12-01T13:00:00Z"


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install(control_plane.admin)
    return control_plane.admin


@pytest.fixture
def alice(admin: ApiClient) -> ApiClient:
    """May do everything, so that only the policies stand in her way."""
    return admin.as_user("alice", ["system:masters"])


@pytest.fixture
def reconciler(admin: ApiClient) -> ApiClient:
    return admin.as_user(RECONCILER, ["system:masters"])


def create(client: ApiClient, namespace: str, spec: JsonObject | None = None, **annotations: str) -> JsonObject:
    keys = {"created": CREATED_BY, "changed": CHANGED_BY}
    meta = {keys[name]: value for name, value in annotations.items()}
    return client.create(reservation("row", spec, annotations=meta), namespace=namespace).object


def change(client: ApiClient, namespace: str, spec: JsonObject | None = None, **annotations: str | None) -> JsonObject:
    keys = {"created": CREATED_BY, "changed": CHANGED_BY}
    meta = {keys[name]: value for name, value in annotations.items()}
    patch = {"metadata": {"annotations": meta}, "spec": spec or {}}
    return client.patch(RESERVATIONS, "row", patch, namespace).object


def grant(admin: ApiClient, namespace: str) -> None:
    granted = {"start": START, "end": END, "units": 1}
    status = {"status": {"phase": "Confirmed", "granted": granted}}
    admin.patch(RESERVATIONS, "row", status, namespace, subresource="status")


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(ApiError, match="gpures-reservations") as caught:
        call()
    return caught.value.message


# ------------------------------------------------------------------------------------------------------- the size


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@pytest.mark.parametrize(
    "meta",
    [
        {"annotations": {"example.com/large": "x" * 2049}},
        {"annotations": {f"example.com/{number}": "x" for number in range(33)}},
        {"annotations": {LAST_APPLIED: "x" * 16385}},
        {"labels": {f"example.com/{number}": "x" for number in range(65)}},
        {"finalizers": [f"example.com/{number}" for number in range(17)]},
    ],
    ids=["long", "many", "last-applied", "labels", "finalizers"],
)
def test_a_reservation_carries_no_load_for_everybody(alice: ApiClient, namespace: str, meta: JsonObject) -> None:
    assert "at most" in refused(lambda: alice.create(reservation("row", **meta), namespace=namespace))


def test_what_kubectl_apply_keeps_fits(alice: ApiClient, namespace: str) -> None:
    alice.create(reservation("row", annotations={LAST_APPLIED: "x" * 16384}), namespace=namespace)


# ----------------------------------------------------------------------------------------------------- the stamps


def test_the_creator_may_be_the_requester(alice: ApiClient, namespace: str) -> None:
    stored = create(alice, namespace, created="alice", changed="alice")
    assert stored["metadata"]["annotations"] == {CREATED_BY: "alice", CHANGED_BY: "alice"}


def test_the_stamps_may_be_missing_while_the_webhook_is_down(alice: ApiClient, namespace: str) -> None:
    assert create(alice, namespace)["metadata"]["name"] == "row"


def test_nobody_creates_in_anothers_name(alice: ApiClient, namespace: str) -> None:
    assert "leave it as it is" in refused(lambda: create(alice, namespace, created="bob"))


def test_nobody_changes_in_anothers_name_at_creation(alice: ApiClient, namespace: str) -> None:
    assert "leave it to be written" in refused(lambda: create(alice, namespace, changed="bob"))


@pytest.mark.parametrize("creator", ["bob", None], ids=["another", "removed"])
def test_the_creator_stays(alice: ApiClient, namespace: str, creator: str | None) -> None:
    create(alice, namespace, created="alice")
    assert "leave it as it is" in refused(lambda: change(alice, namespace, created=creator))


def test_a_creator_is_not_added_later(alice: ApiClient, namespace: str) -> None:
    create(alice, namespace)
    assert "leave it as it is" in refused(lambda: change(alice, namespace, created="alice"))


@pytest.mark.parametrize("changer", ["alice", "bob", None], ids=["unchanged", "requester", "removed"])
def test_the_changer_is_the_requester_or_unchanged_or_absent(
    admin: ApiClient, alice: ApiClient, namespace: str, changer: str | None
) -> None:
    create(alice, namespace, created="alice", changed="alice")
    bob = admin.as_user("bob", ["system:masters"])
    stored = change(bob, namespace, {"note": "shorter"}, changed=changer)
    assert stored["metadata"]["annotations"].get(CHANGED_BY) == changer


def test_the_changer_is_nobody_else(admin: ApiClient, alice: ApiClient, namespace: str) -> None:
    create(alice, namespace, created="alice", changed="alice")
    bob = admin.as_user("bob", ["system:masters"])
    assert "leave it to be written" in refused(lambda: change(bob, namespace, {"note": "shorter"}, changed="carol"))


def test_the_reconciler_mirrors_in_the_name_of_the_holder(reconciler: ApiClient, namespace: str) -> None:
    stored = create(reconciler, namespace, {"type": "OnDemand"}, created="alice")
    assert stored["metadata"]["annotations"][CREATED_BY] == "alice"


# ----------------------------------------------------------------------------------------------------- the types


@pytest.mark.parametrize("kind", ["OnDemand", "BestEffort"])
def test_people_write_bookings_only(alice: ApiClient, namespace: str, kind: str) -> None:
    assert "written by the reservation service only" in refused(lambda: create(alice, namespace, {"type": kind}))


def test_people_do_not_change_the_wish_of_a_lease(alice: ApiClient, reconciler: ApiClient, namespace: str) -> None:
    create(reconciler, namespace, {"type": "OnDemand"})
    assert "written by the reservation service only" in refused(lambda: change(alice, namespace, {"duration": "8h"}))


def test_metadata_of_a_lease_may_be_changed(alice: ApiClient, reconciler: ApiClient, namespace: str) -> None:
    create(reconciler, namespace, {"type": "OnDemand"})
    labelled = alice.patch(RESERVATIONS, "row", {"metadata": {"labels": {"team": "blue"}}}, namespace).object
    assert labelled["metadata"]["labels"] == {"team": "blue"}


def test_the_reconciler_changes_a_lease(reconciler: ApiClient, namespace: str) -> None:
    create(reconciler, namespace, {"type": "OnDemand"})
    assert change(reconciler, namespace, {"duration": "8h"})["spec"]["duration"] == "8h"


# ------------------------------------------------------------------------------------------- after confirmation


def test_before_the_promise_the_start_may_move(alice: ApiClient, namespace: str) -> None:
    create(alice, namespace, {"start": START})
    assert change(alice, namespace, {"start": END})["spec"]["start"] == END


@pytest.mark.parametrize("start", [END, None], ids=["moved", "removed"])
def test_after_the_promise_the_start_is_fixed(
    admin: ApiClient, alice: ApiClient, namespace: str, start: str | None
) -> None:
    create(alice, namespace, {"start": START})
    grant(admin, namespace)
    sentence = refused(lambda: change(alice, namespace, {"start": start}))
    assert "the start of a granted reservation is fixed; change end or duration" in sentence


def test_a_start_is_not_added_after_the_promise(admin: ApiClient, alice: ApiClient, namespace: str) -> None:
    create(alice, namespace)
    grant(admin, namespace)
    assert "is fixed" in refused(lambda: change(alice, namespace, {"start": START}))


def test_the_same_start_in_another_time_zone_is_no_change(admin: ApiClient, alice: ApiClient, namespace: str) -> None:
    create(alice, namespace, {"start": START})
    grant(admin, namespace)
    same = "2026-12-01T10:00:00+01:00"
    assert change(alice, namespace, {"start": same})["spec"]["start"] == same


@pytest.mark.parametrize("wish", [{"duration": "8h"}, {"units": 4}, {"cancel": True}, {"note": "hi"}], ids=str)
def test_everything_else_may_be_wished_for_after_the_promise(
    admin: ApiClient, alice: ApiClient, namespace: str, wish: JsonObject
) -> None:
    create(alice, namespace, {"start": START})
    grant(admin, namespace)
    assert change(alice, namespace, wish)["spec"].items() >= wish.items()


def test_the_status_is_no_business_of_this_policy(admin: ApiClient, reconciler: ApiClient, namespace: str) -> None:
    create(admin, namespace)
    grant(reconciler, namespace)
    assert admin.get(RESERVATIONS, "row", namespace)["status"]["phase"] == "Confirmed"
