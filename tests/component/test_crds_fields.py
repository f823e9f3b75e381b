"""What may be written into the two kinds, what is filled in, and how they read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.component.builders import CLASSES, RESERVATIONS, gpu_class, reservation
from tests.component.rows import END, START, Rows, refused
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.install import install_crds

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def admin(control_plane: ControlPlane) -> ApiClient:
    install_crds(control_plane.admin)
    return control_plane.admin


@pytest.fixture
def rows(admin: ApiClient, namespace: str) -> Rows:
    return Rows(admin, namespace)


@pytest.fixture
def new_class(admin: ApiClient, namespace: str) -> Iterator[Callable[[JsonObject], JsonObject]]:
    """Creates classes that Observe, so that pods of other tests are none of their business."""
    made: list[str] = []

    def create(spec: JsonObject) -> JsonObject:
        name = f"{namespace}-{len(made)}"
        stored = admin.create(gpu_class(name, {"mode": "Observe"} | spec)).object
        made.append(name)
        return stored

    yield create
    for name in made:
        admin.delete(CLASSES, name)


# ------------------------------------------------------------------------------------------------------- the wish


def test_the_shortest_reservation_gets_its_defaults(rows: Rows) -> None:
    row = rows.create()
    expected = {"gpuClass": "h100", "duration": "4h", "units": 1, "type": "Booking"}
    assert rows.get(row)["spec"] == expected


def test_a_reservation_of_zero_length_is_valid(rows: Rows) -> None:
    row = rows.create({"duration": None, "start": START, "end": START})
    assert rows.get(row)["spec"]["end"] == START


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"end": END}, "give exactly one of end and duration"),
        ({"duration": None}, "give exactly one of end and duration"),
        ({"duration": None, "start": END, "end": START}, "end lies before start"),
        ({"duration": "0s"}, "a duration is more than zero"),
        ({"duration": "4 hours"}, "spec.duration"),
        ({"duration": "7d"}, "spec.duration"),
        ({"duration": "-4h"}, "spec.duration"),
        ({"start": "tomorrow"}, "spec.start"),
        ({"units": 0}, "spec.units"),
        ({"gpuClass": None}, "spec.gpuClass"),
        ({"type": "Lease"}, "spec.type"),
        ({"note": "x" * 257}, "spec.note"),
    ],
)
def test_a_wish_that_makes_no_sense_is_refused(rows: Rows, spec: JsonObject, sentence: str) -> None:
    assert sentence in refused(lambda: rows.create(spec))


@pytest.mark.parametrize("duration", ["4h", "90m", "1h30m", "45s", "8760h"])
def test_durations_are_written_as_go_writes_them(rows: Rows, duration: str) -> None:
    row = rows.create({"duration": duration})
    assert rows.get(row)["spec"]["duration"] == duration


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"gpuClass": "a100"}, "the class of a reservation cannot be changed"),
        ({"type": "OnDemand"}, "the type of a reservation cannot be changed"),
        ({"cancel": False}, "stays cancelled"),
        ({"cancel": None}, "stays cancelled"),
    ],
)
def test_what_is_settled_cannot_be_changed(rows: Rows, change: JsonObject, sentence: str) -> None:
    row = rows.create({"cancel": True})
    assert sentence in refused(lambda: rows.spec(row, change))


def test_duration_may_be_exchanged_for_an_end(rows: Rows) -> None:
    row = rows.create()
    rows.spec(row, {"duration": None, "end": END})
    assert "duration" not in rows.get(row)["spec"]


def test_a_name_that_fits_no_label_is_refused(rows: Rows) -> None:
    create = lambda: rows.admin.create(reservation("x" * 64), namespace=rows.namespace)  # noqa: E731
    assert "at most 63 characters" in refused(create)


# -------------------------------------------------------------------------------------------------------- classes


def test_an_empty_class_gets_its_defaults(admin: ApiClient) -> None:
    stored = admin.create(gpu_class("empty"), dry_run=True).object
    assert stored["spec"] == {
        "mode": "Enforce",
        "withoutReservation": "Hold",
        "unit": {"name": "GPU", "resources": {"nvidia.com/gpu": "1"}},
        "spare": 0,
        "limits": {"maxDuration": "168h", "maxAhead": "720h", "maxReservationsPerNamespace": 200},
        "onCancel": "Lazy",
        "keepFinished": "336h",
    }


def test_a_class_without_a_spec_is_an_empty_class(admin: ApiClient) -> None:
    bare = gpu_class("empty")
    del bare["spec"]
    assert admin.create(bare, dry_run=True).object["spec"]["mode"] == "Enforce"


def test_the_counter_of_confirmations_is_there_from_the_start(
    admin: ApiClient, new_class: Callable[[JsonObject], JsonObject]
) -> None:
    name = new_class({})["metadata"]["name"]
    swap = [
        {"op": "test", "path": "/status/confirmations", "value": 0},
        {"op": "replace", "path": "/status/confirmations", "value": 1},
    ]
    stored = admin.patch(CLASSES, name, swap, kind="json", subresource="status").object
    assert stored["status"]["confirmations"] == 1


def test_the_counter_of_confirmations_never_goes_back(
    admin: ApiClient, new_class: Callable[[JsonObject], JsonObject]
) -> None:
    name = new_class({})["metadata"]["name"]
    admin.patch(CLASSES, name, {"status": {"confirmations": 7}}, subresource="status")
    back = lambda: admin.patch(CLASSES, name, {"status": None}, subresource="status")  # noqa: E731
    assert "only grows" in refused(back)


@pytest.mark.parametrize(
    ("before", "after"),
    [({"labelValue": "A100_80GB"}, "A100_40GB"), ({"labelValue": "A100_80GB"}, None), ({}, "A100_80GB")],
)
def test_the_label_value_is_settled_at_creation(
    admin: ApiClient, new_class: Callable[[JsonObject], JsonObject], before: JsonObject, after: str | None
) -> None:
    name = new_class(before)["metadata"]["name"]
    change = lambda: admin.patch(CLASSES, name, {"spec": {"labelValue": after}})  # noqa: E731
    assert "labelValue cannot be changed, added or removed" in refused(change)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"unit": {"resources": {}}}, "spec.unit.resources"),
        ({"unit": {"resources": {"nvidia.com/gpu": "0"}}}, "more than zero"),
        ({"unit": {"resources": {"nvidia.com/gpu": "many"}}}, "spec.unit.resources"),
        ({"unit": {"resources": {"memory": "2P"}}}, "less than 1P"),
        ({"limits": {"maxDuration": "0h"}}, "a duration is more than zero"),
        ({"keepFinished": "forever"}, "spec.keepFinished"),
        ({"spare": -1}, "spec.spare"),
        ({"mode": "On"}, "spec.mode"),
        ({"modeFor": [{"mode": "Warn"}]}, "spec.modeFor[0].namespaces"),
        ({"labelValue": "no label"}, "spec.labelValue"),
    ],
)
def test_a_class_that_makes_no_sense_is_refused(admin: ApiClient, spec: JsonObject, sentence: str) -> None:
    assert sentence in refused(lambda: admin.create(gpu_class("senseless", spec), dry_run=True))


def test_a_class_whose_name_fits_no_label_needs_a_label_value(admin: ApiClient) -> None:
    assert "or set labelValue" in refused(lambda: admin.create(gpu_class("x" * 64), dry_run=True))


# ------------------------------------------------------------------------------------------------------- reading


def test_reservations_can_be_selected_by_class_and_phase(rows: Rows) -> None:
    wanted = rows.confirmed(1)
    rows.create()
    rows.create({"gpuClass": "a100"})
    found = rows.admin.items(RESERVATIONS, rows.namespace, fields="spec.gpuClass=h100,status.phase=Active")
    assert [row["metadata"]["name"] for row in found] == [wanted]


def test_kubectl_names_a_field_that_is_none_of_ours(control_plane: ControlPlane, rows: Rows) -> None:
    manifest = (
        "{apiVersion: gpures.dev/v1alpha1, kind: GPUReservation, metadata: {name: typo},"
        " spec: {gpuClass: h100, duration: 4h, unit: 2}}"
    )
    done = control_plane.kubectl("create", "-n", rows.namespace, "-f", "-", stdin=manifest, check=False)
    assert 'unknown field "spec.unit"' in done.stderr


def test_a_booked_reservation_reads_as_the_golden_row(control_plane: ControlPlane, rows: Rows) -> None:
    rows.admin.create(reservation("sprint", {"units": 2}), namespace=rows.namespace)
    granted = {"start": START, "end": END, "units": 2}
    booked = {"phase": "Confirmed", "granted": granted, "used": "0/2", "waitingPods": 0, "reason": "Fits"}
    rows.status("sprint", booked)
    header, row = control_plane.kubectl("get", "gpures", "-n", rows.namespace).stdout.splitlines()
    assert header.split() == ["NAME", "CLASS", "USED", "WAITING", "PHASE", "START", "END", "REASON", "AGE"]
    assert row.split()[:-1] == ["sprint", "h100", "0/2", "0", "Confirmed", START, END, "Fits"]


def test_the_wide_columns_come_last(control_plane: ControlPlane, rows: Rows) -> None:
    row = rows.confirmed(2)
    rows.status(row, {"guaranteedUntil": END, "createdBy": "alice"})
    header, line = control_plane.kubectl("get", "gpures", "-n", rows.namespace, "-o", "wide").stdout.splitlines()
    assert header.split()[-4:] == ["AGE", "GUARANTEED-UNTIL", "TYPE", "BY"]
    assert line.split()[-3:] == [END, "Booking", "alice"]


def test_the_columns_of_a_class_are_its_figures(
    control_plane: ControlPlane, admin: ApiClient, new_class: Callable[[JsonObject], JsonObject]
) -> None:
    name = new_class({})["metadata"]["name"]
    ready = {"type": "Ready", "status": "True", "reason": "Counted", "message": "", "lastTransitionTime": START}
    units = {"bookable": 32, "reserved": 12, "free": -1, "largestBlock": 8}
    admin.patch(
        CLASSES, name, {"status": {"nodes": "3/4", "units": units, "conditions": [ready]}}, subresource="status"
    )
    header, row = control_plane.kubectl("get", "gpuc", name).stdout.splitlines()
    assert header.split() == ["NAME", "MODE", "NODES", "BOOKABLE", "RESERVED", "FREE", "BLOCK", "READY", "AGE"]
    assert row.split()[1:-1] == ["Observe", "3/4", "32", "12", "-1", "8", "True"]


def test_deleting_everything_leaves_the_bookings(control_plane: ControlPlane, rows: Rows) -> None:
    row = rows.create()
    control_plane.kubectl("delete", "all", "--all", "-n", rows.namespace)
    assert rows.get(row)["metadata"]["name"] == row


def test_one_category_lists_both_kinds(control_plane: ControlPlane, rows: Rows) -> None:
    row = rows.create()
    listed = control_plane.kubectl("get", "gpures-all", "-n", rows.namespace, "-o", "name").stdout
    assert f"gpureservation.gpures.dev/{row}" in listed.splitlines()
