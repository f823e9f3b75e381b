"""GPUClasses and GPUReservations from and to JSON."""

from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from common.adapters.wire import (
    decode_class,
    decode_reservation,
    encode_class_status,
    encode_conditions,
    encode_granted,
)
from common.domain.errors import MalformedObject
from common.domain.gpu_class import ClassUnits, Limits, Mode, OnCancel, Unit, WithoutReservation
from common.domain.reservation import Condition, Granted, ObjectKey, Phase, ReservationType
from common.domain.time import Window
from tests.support import builders, manifests
from tests.support.builders import NINE, at
from tests.support.manifests import raw

FITS = Condition("Confirmed", "True", "Fits", "2 of 8 free", NINE, 1)


def test_an_empty_spec_has_the_defaults_of_the_domain() -> None:
    gpu_class = decode_class(raw(manifests.a_class()))
    assert gpu_class.label == gpu_class.name == "h100"
    assert gpu_class.mode is Mode.ENFORCE
    assert gpu_class.without_reservation is WithoutReservation.HOLD
    assert gpu_class.unit == Unit()
    assert gpu_class.limits == Limits()
    assert gpu_class.on_cancel is OnCancel.LAZY
    assert gpu_class.keep_finished == timedelta(hours=336)
    assert gpu_class.units is None
    assert not gpu_class.conflict


def test_every_field_of_a_class() -> None:
    gpu_class = decode_class(
        raw(
            manifests.a_class(
                "a100-80",
                labelValue="A100_80GB",
                displayName="A100",
                mode="Warn",
                modeFor=[{"namespaces": ["jhub"], "mode": "Observe"}],
                withoutReservation="Allow",
                unit={"name": "slice", "resources": {"nvidia.com/gpu": 2, "cpu": "8"}},
                spare=1,
                limits={
                    "maxDuration": "12h",
                    "maxAhead": "48h",
                    "maxUnitsPerReservation": 4,
                    "maxUnitsPerNamespace": 8,
                    "maxReservationsPerNamespace": 9,
                    "namespaces": ["alice"],
                },
                onCancel="Evict",
                keepFinished="1h",
                status={
                    "confirmations": 7,
                    "units": {"physical": 8, "largestBlock": 4, "free": -1, "laterField": 3},
                    "conditions": [{"type": "Conflict", "status": "True"}],
                },
            )
        )
    )
    assert (gpu_class.name, gpu_class.label) == ("a100-80", "A100_80GB")
    assert gpu_class.mode_in("jhub") is Mode.OBSERVE
    assert gpu_class.mode_in("alice") is Mode.WARN
    assert gpu_class.without_reservation is WithoutReservation.ALLOW
    assert gpu_class.unit == Unit("slice", {"nvidia.com/gpu": Decimal(2), "cpu": Decimal(8)})
    assert gpu_class.limits == Limits(timedelta(hours=12), timedelta(hours=48), 4, 8, ("alice",), 9)
    assert gpu_class.on_cancel is OnCancel.EVICT
    assert gpu_class.keep_finished == timedelta(hours=1)
    assert gpu_class.confirmations == 7
    assert gpu_class.units == ClassUnits(physical=8, largest_block=4, free=-1)
    assert gpu_class.conflict


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ({"mode": "Sometimes"}, "Sometimes"),
        ({"limits": {"maxDuration": "a week"}}, "'a week' is not a duration"),
        ({"unit": {"resources": {"nvidia.com/gpu": "0"}}}, "more than zero"),
        ({"spare": "1"}, "spare"),
    ],
)
def test_malformed_classes_say_which_and_why(spec: dict[str, Any], hint: str) -> None:
    with pytest.raises(MalformedObject, match=f"^GPUClass h100: .*{hint}"):
        decode_class(raw(manifests.a_class(**spec)))


def test_the_status_of_a_class_reads_back() -> None:
    units = ClassUnits(8, 7, 1, 0, 7, 4, 3, 2, 2)
    status = encode_class_status(units, "3/4", [FITS], observed_generation=2)
    assert status["nodes"] == "3/4"
    assert status["observedGeneration"] == 2
    assert "confirmations" not in status
    read_back = decode_class(raw(manifests.a_class(status=status)))
    assert read_back.units == units
    assert read_back.conditions == (FITS,)


def test_the_shortest_reservation() -> None:
    reservation = decode_reservation(raw(manifests.a_reservation(version="5")))
    assert reservation.key == ObjectKey("alice", "sprint")
    assert reservation.version == "5"
    assert reservation.wish.gpu_class == "h100"
    assert (reservation.wish.units, reservation.wish.duration) == (2, timedelta(hours=4))
    assert reservation.wish.start is None
    assert reservation.wish.type is ReservationType.BOOKING
    assert reservation.phase is Phase.PENDING
    assert reservation.granted is None
    assert reservation.claims == {}


def test_instants_of_other_zones_become_utc() -> None:
    spec: dict[str, Any] = {"gpuClass": "h100", "start": "2026-12-01T10:00:00+01:00", "end": "2026-12-01T13:00:00.5Z"}
    wish = decode_reservation(raw(manifests.a_reservation(**spec))).wish
    assert wish.start == NINE
    assert wish.start.isoformat() == "2026-12-01T09:00:00+00:00"
    assert wish.units == 1


@pytest.mark.parametrize(
    "given",
    [
        builders.a_reservation(),
        builders.a_reservation(phase=Phase.PENDING),
        builders.a_reservation(
            claims={"1764579600-1-9f3c": 1},
            guaranteed_until=at(13),
            used_by=("a", "b", "+2"),
            waiting_pods=3,
            used="1/2",
            reason="Fits",
            message="yours",
            fast_path_until=at(9, 5),
            conditions=(FITS,),
            created_by="alice",
            changed_by="bob",
            stamped_created_by="alice",
            stamped_changed_by="bob",
        ),
        builders.a_reservation(phase=Phase.CANCELED, finished=at(10)),
    ],
)
def test_a_reservation_reads_back(given: Any) -> None:
    assert decode_reservation(raw(manifests.of_reservation(given))) == given


@pytest.mark.parametrize(
    ("spec", "status", "hint"),
    [
        ({"gpuClass": "h100"}, {}, "neither an end nor a duration"),
        ({"gpuClass": "h100", "end": "2026-12-01T13:00:00Z", "duration": "4h"}, {}, "both"),
        ({"gpuClass": "h100", "duration": "4 hours"}, {}, "'4 hours' is not a duration"),
        ({"gpuClass": "h100", "end": "2026-12-01T13:00:00"}, {}, "end"),
        ({"gpuClass": "h100", "duration": "4h", "units": -1}, {}, "units"),
        ({"duration": "4h"}, {}, "gpuClass"),
        ({"gpuClass": "h100", "duration": "4h"}, {"phase": "Dreaming"}, "Dreaming"),
        ({"gpuClass": "h100", "duration": "4h"}, {"claims": {"a": 0.5}}, "claims"),
        (
            {"gpuClass": "h100", "duration": "4h"},
            {"granted": {"start": "2026-12-01T13:00:00Z", "end": "2026-12-01T09:00:00Z", "units": 1}},
            "before it starts",
        ),
    ],
)
def test_malformed_reservations_say_which_and_why(spec: dict[str, Any], status: dict[str, Any], hint: str) -> None:
    with pytest.raises(MalformedObject, match=f"^GPUReservation alice/sprint: .*{hint}"):
        decode_reservation(raw(manifests.a_reservation(status=status, **spec)))


def test_parts_of_the_status() -> None:
    assert encode_granted(None) is None
    assert encode_granted(Granted(Window(at(9), at(13)), 2)) == {
        "start": "2026-12-01T09:00:00Z",
        "end": "2026-12-01T13:00:00Z",
        "units": 2,
    }
    assert encode_conditions([FITS]) == [
        {
            "type": "Confirmed",
            "status": "True",
            "reason": "Fits",
            "message": "2 of 8 free",
            "lastTransitionTime": "2026-12-01T09:00:00Z",
            "observedGeneration": 1,
        }
    ]
    assert msgspec.json.encode(encode_conditions([FITS]))


@pytest.mark.parametrize(
    "spec",
    [
        {"end": "9999-12-31T23:59:59-10:00"},
        {"start": "0000-01-01T00:00:00Z", "duration": "1h"},
        {"start": "0001-01-01T00:00:00+05:00", "duration": "1h"},
        {"duration": "999999h9999999m999999999s"},
        {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T08:00:00Z"},
    ],
)
def test_whatever_the_schema_lets_through_is_read_or_called_malformed(spec: dict[str, Any]) -> None:
    stored = manifests.a_reservation(gpuClass="h100", units=1, **spec)
    with suppress(MalformedObject):
        decode_reservation(raw(stored))


def test_a_promise_holds_whatever_its_spec_has_become() -> None:
    stored = manifests.a_reservation(
        gpuClass="h100",
        units=2,
        end="2026-12-01T13:00:00,5Z",
        status={
            "phase": "Active",
            "observedGeneration": 1,
            "granted": {"start": "2026-12-01T09:00:00Z", "end": "2026-12-01T13:00:00Z", "units": 2},
        },
    )
    stored["metadata"]["generation"] = 2
    reservation = decode_reservation(raw(stored))
    assert reservation.granted == Granted(Window(at(9), at(13)), 2)
    assert (reservation.wish.units, reservation.wish.end) == (2, at(13))
    assert reservation.generation == reservation.observed_generation
