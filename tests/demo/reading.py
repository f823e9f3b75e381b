"""What the demo reads out of raw objects; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from common.domain import keys
from tests.controlplane.discovery import JsonObject
from tests.controlplane.nodes import GPU

PROMISED = ("Confirmed", "Active")


def key(obj: JsonObject) -> str:
    """`alice/sprint`."""
    meta = obj["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def notes(pod: JsonObject) -> Mapping[str, str]:
    """The annotations of a pod."""
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found


def gpu_class(pod: JsonObject) -> str:
    return str((pod["metadata"].get("labels") or {}).get(keys.CLASS_LABEL, ""))


def gated(pod: JsonObject) -> bool:
    return any(gate["name"] == keys.GATE for gate in pod["spec"].get("schedulingGates") or ())


def admitted(pod: JsonObject) -> bool:
    """Let in: it carries the toleration of its class."""
    wanted = gpu_class(pod)
    tolerations = pod["spec"].get("tolerations") or ()
    return any(entry.get("key") == keys.TAINT and entry.get("value") == wanted for entry in tolerations)


def units(pod: JsonObject) -> int:
    limits = (container.get("resources", {}).get("limits", {}) for container in pod["spec"]["containers"])
    return sum(int(found.get(GPU, 0)) for found in limits)


def held(pod: JsonObject) -> tuple[str, str]:
    """Reason and sentence, empty where there is none."""
    reason, _, sentence = notes(pod).get(keys.HELD, "").partition(": ")
    return reason, sentence


def held_until(pod: JsonObject) -> datetime | None:
    return instant(notes(pod).get(keys.HELD_UNTIL))


def guaranteed_until(pod: JsonObject) -> datetime | None:
    return instant(notes(pod).get(keys.GUARANTEED_UNTIL))


def node(pod: JsonObject) -> str:
    return str(pod["spec"].get("nodeName", ""))


def phase(obj: JsonObject) -> str:
    return str((obj.get("status") or {}).get("phase", "Pending"))


def claims(reservation: JsonObject) -> Mapping[str, int]:
    found: Mapping[str, int] = (reservation.get("status") or {}).get("claims") or {}
    return found


def granted_units(reservation: JsonObject) -> int:
    granted = (reservation.get("status") or {}).get("granted") or {}
    return int(granted.get("units", 0))


def granted_window(reservation: JsonObject) -> tuple[datetime, datetime] | None:
    granted = (reservation.get("status") or {}).get("granted") or {}
    start, end = instant(granted.get("start")), instant(granted.get("end"))
    return (start, end) if start and end else None


def message(reservation: JsonObject) -> str:
    return str((reservation.get("status") or {}).get("message", ""))


def holder(lease: JsonObject) -> str:
    """The replica that leads, without the random part of its identity."""
    return str(lease["spec"].get("holderIdentity") or "").partition("_")[0]


def instant(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
