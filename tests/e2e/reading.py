"""What tests read out of stored pods and reservations."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from common.domain import keys
from tests.controlplane.discovery import JsonObject

RECONCILER = "system:serviceaccount:gpures-system:gpures-reconciler"
WEBHOOK = "system:serviceaccount:gpures-system:gpures-webhook"


def annotations(pod: JsonObject) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations", {})
    return found


def labels(pod: JsonObject) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("labels", {})
    return found


def gates(pod: JsonObject) -> Sequence[str]:
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def held(pod: JsonObject) -> bool:
    return keys.GATE in gates(pod)


def tolerated(pod: JsonObject) -> Sequence[str]:
    """Classes whose taint the pod tolerates."""
    return [entry.get("value", "") for entry in pod["spec"].get("tolerations", []) if entry.get("key") == keys.TAINT]


def let_in(pod: JsonObject) -> bool:
    return not held(pod) and bool(tolerated(pod)) and keys.CLAIM in annotations(pod)


def reason(pod: JsonObject) -> str:
    """The word before the sentence in the annotation; empty when the pod does not wait."""
    return annotations(pod).get(keys.HELD, "").partition(":")[0]


def sentence(pod: JsonObject) -> str:
    return annotations(pod).get(keys.HELD, "").partition(": ")[2]


def condition(stored: JsonObject, kind: str = keys.HELD_CONDITION) -> JsonObject:
    """A condition of a pod or a reservation; empty when there is none of that type."""
    entries: Sequence[JsonObject] = stored.get("status", {}).get("conditions", [])
    return next((entry for entry in entries if entry["type"] == kind), {})


def phase(stored: JsonObject | None) -> str:
    return str(stored.get("status", {}).get("phase", "")) if stored is not None else "gone"


def over(pod: JsonObject) -> bool:
    return phase(pod) in ("Succeeded", "Failed")


def node(pod: JsonObject) -> str:
    return str(pod["spec"].get("nodeName", ""))


def units(pod: JsonObject) -> int:
    """GPUs in the limits of the first container."""
    return int(pod["spec"]["containers"][0]["resources"].get("limits", {}).get("nvidia.com/gpu", "0"))


def claims(reservation: JsonObject) -> Mapping[str, int]:
    found: Mapping[str, int] = reservation.get("status", {}).get("claims", {})
    return found


def instant(text: str) -> datetime:
    """An instant as the API server writes it."""
    return datetime.fromisoformat(text)


def started(pod: JsonObject) -> datetime:
    """When the kubelet started its container."""
    (status,) = pod["status"]["containerStatuses"]
    return instant(status["state"]["running"]["startedAt"])


def on_the_wire(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
