"""What the auditor takes from raw objects of the watch: plain JSON in, small values out; nothing of the product."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias

Raw: TypeAlias = Mapping[str, Any]

CLAIM, NAME, USE = "gpures.dev/claim", "gpures.dev/reservation", "gpures.dev/use-reservation"
GATE, TAINT, GPU = "gpures.dev/hold", "gpu-class-reservation", "nvidia.com/gpu"
ROLE = "faults.test/role"
LIVE_PHASES = frozenset({"Confirmed", "Active"})
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Seen:
    """One version of an object, and when the watch brought it, by the wall and by the monotonic clock."""

    uid: str
    namespace: str
    name: str
    version: int
    gone: bool
    arrived: datetime
    arrived_s: float


@dataclass(frozen=True)
class PodSeen(Seen):
    """`written`: the whole second in which its latest writer began to write, as the API server noted it."""

    role: str
    gated: bool
    tolerates: bool
    token: str
    reservation: str
    wants: str
    node: str
    phase: str
    leaving: bool
    units: int
    written: datetime

    @property
    def let_in(self) -> bool:
        return self.tolerates and not self.gated

    @property
    def lives(self) -> bool:
        return not self.gone and self.phase not in ("Succeeded", "Failed")


@dataclass(frozen=True)
class Promise:
    """`[start, end)` and the units."""

    start: datetime
    end: datetime
    units: int


@dataclass(frozen=True)
class ReservationSeen(Seen):
    gpu_class: str
    phase: str
    promise: Promise | None
    claims: Mapping[str, int]


def read(kind: str, raw: Raw, arrived: datetime, arrived_s: float) -> Seen:
    """`kind` is the type of the watch's line."""
    meta = raw["metadata"]
    common = (
        str(meta["uid"]),
        str(meta.get("namespace", "")),
        str(meta["name"]),
        int(meta["resourceVersion"]),
        kind == "DELETED",
        arrived,
        arrived_s,
    )
    if "gpuClass" in raw["spec"]:
        status = raw.get("status", {})
        given = status.get("granted")
        promise = given and Promise(_instant(given["start"]), _instant(given["end"]), int(given["units"]))
        return ReservationSeen(
            *common, raw["spec"]["gpuClass"], status.get("phase", ""), promise or None, dict(status.get("claims", {}))
        )
    return _pod(common, raw)


def _pod(common: tuple[str, str, str, int, bool, datetime, float], raw: Raw) -> PodSeen:
    meta, spec = raw["metadata"], raw["spec"]
    labels, annotations = meta.get("labels", {}), meta.get("annotations", {})
    limits = (box.get("resources", {}).get("limits", {}) for box in spec["containers"])
    return PodSeen(
        *common,
        role=labels.get(ROLE, ""),
        gated=any(gate["name"] == GATE for gate in spec.get("schedulingGates", [])),
        tolerates=any(each.get("key") == TAINT for each in spec.get("tolerations", [])),
        token=annotations.get(CLAIM, ""),
        reservation=labels.get(NAME, ""),
        wants=annotations.get(USE, ""),
        node=spec.get("nodeName", ""),
        phase=raw.get("status", {}).get("phase", ""),
        leaving="deletionTimestamp" in meta,
        units=sum(int(limit.get(GPU, "0")) for limit in limits),
        written=max(
            (_instant(each["time"]) for each in meta.get("managedFields", []) if "time" in each), default=EPOCH
        ),
    )


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)
