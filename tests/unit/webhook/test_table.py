"""Every row of the pod tables in docs/reference/webhook.md, and no row without a case."""

import copy
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest

from common.domain.gpu_class import GpuClass, Mode, Unit, WithoutReservation
from common.domain.reservation import Phase, Reservation, Wish
from tests.support.builders import a_class, a_reservation, at
from tests.support.manifests import a_pod, container
from tests.unit.webhook.scene import HELD_BY_POLICY, TOLERATION, Scene, after, annotations
from tests.unit.webhook.tables import Row, rows
from tests.unit.webhook.verdicts import VERDICTS
from webhook.review import Decision, NotReady

EVERYTHING = {"operator": "Exists"}
FOREIGN_GATE = {"name": "example.com/quota"}
Prepare = Callable[[Scene], None]


@dataclass(frozen=True)
class Case:
    """A pod, and the world that it comes into: an open reservation for two unless told otherwise."""

    pod: dict[str, Any] = field(default_factory=a_pod)
    gpu_class: GpuClass | None = field(default_factory=a_class)
    booked: tuple[Reservation, ...] = (a_reservation(),)
    prepare: Prepare = lambda _scene: None
    request: dict[str, Any] = field(default_factory=dict)
    claims: int | None = None
    """How many claims must stand in the end."""
    warns: str = ""
    again: bool = False
    """Send what came out of a first run."""
    claim_within_s: float = 5.0

    async def run(self, entry: str) -> tuple[Scene, dict[str, Any], Decision]:
        scene = Scene(*([self.gpu_class] if self.gpu_class else []), claim_within_s=self.claim_within_s)
        for reservation in self.booked:
            scene.book(reservation)
        self.prepare(scene)
        decide: Callable[..., Awaitable[Decision]] = scene.guarded if entry == "guard" else scene.grant
        pod = copy.deepcopy(self.pod)
        if self.again:
            pod = after(pod, await decide(pod, **self.request))
        return scene, pod, await decide(pod, **self.request)


def tolerating(*tolerations: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return a_pod(spec={"tolerations": list(tolerations)}, **fields)


def held_by_policy(**fields: Any) -> dict[str, Any]:
    notes = {"gpures.dev/held": HELD_BY_POLICY, **fields.pop("annotations", {})}
    return a_pod(gates=("gpures.dev/hold",), annotations=notes, **fields)


def not_synced(scene: Scene) -> None:
    scene.synced = False


def unsure(scene: Scene) -> None:
    scene.clock.set_uncertainty(timedelta(seconds=1.5))


def stuck(scene: Scene) -> None:
    scene.api.passing.clear()


def cut_off(scene: Scene) -> None:
    for _ in range(9):
        scene.breaker.missed()


def full_in_truth(scene: Scene) -> None:
    scene.api.stored[OPEN.key] = a_reservation(claims={"a": 1, "b": 1}, version="999999")


OPEN = a_reservation()
LATER = a_reservation(start=14, end=18)
FULL = a_reservation(claims={"a": 1, "b": 1})
CPU_CLASS = a_class("cpu", unit=Unit("core", {"cpu": a_class().unit.resources["nvidia.com/gpu"]}))
STOLEN = {"gpures.dev/claim": "1764582000-1-9f3c"}
OUTPUTS = {
    "galends/booking-reference": "vip",
    "galends/guaranteed-until": "2099-01-01T00:00:00Z",
    "gpures.dev/held": "NoReservation: go away",
    "gpures.dev/held-until": "2099-01-01T00:00:00Z",
}
MIRROR = {"kubernetes.io/config.mirror": "abc"}
KUBELET = {"user": "system:node:node-1"}
REFUSE = {"gpures.dev/if-held": "Refuse"}
BY_A_JOB = [{"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train", "controller": True}]
OBSERVE, WARN = (a_class(mode=mode) for mode in (Mode.OBSERVE, Mode.WARN))
ALLOW = a_class(without_reservation=WithoutReservation.ALLOW)
BY_AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]}]
        }
    }
}
DAEMON = {"affinity": BY_AFFINITY, "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]}
IN_INIT = {"tolerations": [EVERYTHING], "initContainers": [container(1, name="prepare")]}

GUARD: dict[str, Case] = {
    "toleration of the reserved taint, and a GPU": Case(tolerating(TOLERATION)),
    "toleration of the reserved taint with operator Exists and no effect, and a GPU": Case(
        tolerating({"key": "gpu-class-reservation", "operator": "Exists"})
    ),
    "toleration of everything, and a GPU": Case(tolerating(EVERYTHING)),
    "toleration of everything, and a GPU in an init container": Case(a_pod(gpus=0, spec=IN_INIT)),
    "a claim token": Case(a_pod(annotations=STOLEN)),
    "toleration of the reserved taint, no GPU": Case(tolerating(TOLERATION, gpus=0)),
    "toleration of everything, no GPU": Case(tolerating(EVERYTHING, gpus=0, gpu_class="")),
    "toleration of everything, and CPU where the class counts CPU": Case(
        tolerating(EVERYTHING, gpus=0) | {}, gpu_class=CPU_CLASS
    ),
    "toleration of the reserved taint, and a GPU, class in Observe or Warn": Case(
        tolerating(TOLERATION), gpu_class=OBSERVE
    ),
    "toleration of the reserved taint, and a GPU, classes not known yet": Case(
        tolerating(TOLERATION), gpu_class=None, prepare=not_synced
    ),
    "toleration of everything, and a GPU, classes not known yet": Case(
        tolerating(EVERYTHING), gpu_class=None, prepare=not_synced
    ),
}
GUARD["toleration of everything, and CPU where the class counts CPU"].pod["spec"]["containers"][0]["resources"] = {
    "requests": {"cpu": "2"}
}

GRANT: dict[str, Case] = {
    "reservation open, room left": Case(claims=1),
    "reservation open, room left, the hold policy's gate on the pod": Case(held_by_policy(), claims=1),
    "reservation open, room left, gate and reason of the policy among other annotations": Case(
        held_by_policy(annotations={"example.com/a~b": "kept"}), claims=1
    ),
    "reservation opens later": Case(booked=(LATER,), claims=0, warns="opens 2026-12-01 14:00 UTC, in 2 h"),
    "reservation open, all units used": Case(booked=(FULL,), claims=2, warns="all used"),
    "nothing booked": Case(booked=(), warns="book one"),
    "asks more than any reservation has": Case(a_pod(gpus=3), claims=0, warns="asks 3 h100 and sprint holds 2"),
    "nothing booked, if-held Refuse": Case(a_pod(annotations=REFUSE), booked=()),
    "opens later, if-held Refuse": Case(a_pod(annotations=REFUSE), booked=(LATER,), claims=0),
    "open, if-held Refuse": Case(a_pod(annotations=REFUSE), claims=1),
    "nothing booked, if-held Refuse, a controller": Case(
        a_pod(annotations=REFUSE, ownerReferences=BY_A_JOB), booked=(), warns="for pods without a controller"
    ),
    "nothing booked, if-held with another word": Case(
        a_pod(annotations={"gpures.dev/if-held": "refuse"}), booked=(), warns="the only word is Refuse"
    ),
    "open, the claim not answered in time, if-held Refuse": Case(
        a_pod(annotations=REFUSE), prepare=stuck, claim_within_s=0.03, warns="not decided yet"
    ),
    "reservation not confirmed yet": Case(booked=(a_reservation(phase=Phase.PENDING),), warns="not confirmed yet"),
    "reservation selects other pods": Case(
        booked=(a_reservation(wish=Wish("h100", 2, at(9), at(13), pods={"user": "bob"})),), claims=0
    ),
    "names a reservation that is open": Case(
        a_pod(annotations={"gpures.dev/use-reservation": "sprint"}), booked=(a_reservation("sooner", end=13), OPEN)
    ),
    "names a reservation that does not exist, another is open": Case(
        a_pod(annotations={"gpures.dev/use-reservation": "spring"}), claims=0, warns="spring"
    ),
    "open, but too few free units on ready nodes": Case(gpu_class=a_class(free=0), claims=0),
    "open, somebody else's gate on the pod": Case(
        a_pod(gates=("example.com/quota", "gpures.dev/hold")), claims=0, warns="example.com/quota"
    ),
    "open, claims were orphaned lately": Case(booked=(a_reservation(fast_path_until=at(12, 5)),), claims=0),
    "open, the API server's time known to more than a second only": Case(prepare=unsure, claims=0),
    "open, the claim not answered in time": Case(prepare=stuck, claim_within_s=0.03),
    "open, the API server not reachable for a while": Case(prepare=cut_off, claims=0),
    "open by this replica's view, full at the API server": Case(booked=(OPEN,), prepare=full_in_truth, claims=2),
    "open, dry run": Case(request={"dry_run": True}, claims=0),
    "output keys of ours in the request, nothing booked": Case(
        a_pod(annotations=OUTPUTS, labels={"gpures.dev/reservation": "vip"}), booked=()
    ),
    "output keys of ours in the request, open": Case(
        a_pod(annotations=OUTPUTS, labels={"gpures.dev/reservation": "vip"}), warns="only the reservation system writes"
    ),
    "run again on what we let in": Case(again=True, claims=1),
    "run again on what we hold": Case(booked=(LATER,), again=True),
    "unknown class": Case(a_pod(gpu_class="hl00"), warns='UnknownGpuClass: no class "hl00"; did you mean "h100"?'),
    "unknown class, the hold policy's gate on the pod": Case(held_by_policy(gpu_class="hl00")),
    "label, but no GPU asked": Case(a_pod(gpus=0), claims=0, warns="NoGpuRequest: "),
    "label, GPU request of zero": Case(a_pod(spec={"containers": [container("0")]}), warns="NoGpuRequest: "),
    "no class label": Case(a_pod(gpu_class=""), claims=0),
    "no class label, output keys of ours": Case(
        a_pod(gpu_class="", annotations=OUTPUTS), warns="only the reservation system writes"
    ),
    "no class label, the gate `gpures.dev/hold`": Case(a_pod(gpu_class="", gates=("gpures.dev/hold",))),
    "no class label, output keys of ours, nothing enforced in the namespace": Case(
        a_pod(gpu_class="", annotations=OUTPUTS), gpu_class=OBSERVE
    ),
    "spec.nodeName on a GPU pod": Case(a_pod(spec={"nodeName": "node-1"}), claims=0),
    "mirror pod from a kubelet": Case(a_pod(spec={"nodeName": "node-1"}, annotations=MIRROR), request=KUBELET),
    "mirror annotation from somebody else, with spec.nodeName": Case(
        a_pod(spec={"nodeName": "node-1"}, annotations=MIRROR)
    ),
    "DaemonSet pod with a GPU, open": Case(a_pod(spec=DAEMON), claims=1),
    "DaemonSet pod without a GPU": Case(a_pod(gpus=0, spec={"tolerations": [EVERYTHING]}), warns="NoGpuRequest: "),
    "class in Observe": Case(gpu_class=OBSERVE, booked=()),
    "class in Warn, nothing booked": Case(gpu_class=WARN, booked=(), warns="would be held: NoReservation: "),
    "class in Warn, open": Case(gpu_class=WARN, claims=0),
    "class in Warn, nothing booked, if-held Refuse": Case(
        a_pod(annotations=REFUSE), gpu_class=WARN, booked=(), warns="would be refused instead of held: NoReservation: "
    ),
    "class in Warn for this namespace, the hold policy's gate on the pod": Case(
        held_by_policy(), gpu_class=a_class(mode_for=((frozenset({"alice"}), Mode.WARN),)), claims=0
    ),
    "withoutReservation Allow, nothing booked": Case(gpu_class=ALLOW, booked=()),
    "withoutReservation Allow, nothing booked, if-held Refuse": Case(
        a_pod(annotations=REFUSE), gpu_class=ALLOW, booked=()
    ),
    "withoutReservation Allow, opens later": Case(
        gpu_class=ALLOW, booked=(LATER,), warns="goes on without a reservation: WaitingForReservation: "
    ),
    "withoutReservation Allow, open": Case(gpu_class=ALLOW, claims=1),
    "withoutReservation Allow, the claim not answered in time": Case(
        gpu_class=ALLOW, prepare=stuck, claim_within_s=0.03
    ),
    "no class in the cluster": Case(gpu_class=None, booked=()),
    "caches not synced": Case(prepare=not_synced, claims=0),
    "UPDATE": Case(request={"operation": "UPDATE"}, claims=0),
}


@pytest.mark.parametrize(("section", "cases"), [("Pods, guard", GUARD), ("Pods, grant", GRANT)])
def test_the_page_and_the_cases_are_of_one_mind(section: str, cases: dict[str, Case]) -> None:
    assert set(rows(section)) == set(cases)


@pytest.mark.parametrize("what", GUARD)
async def test_guard(what: str) -> None:
    await check("guard", GUARD[what], rows("Pods, guard")[what])


@pytest.mark.parametrize("what", GRANT)
async def test_grant(what: str) -> None:
    await check("grant", GRANT[what], rows("Pods, grant")[what])


async def check(entry: str, case: Case, row: Row) -> None:
    answer, _, reason = row.answer.removeprefix("**").partition("**")
    if answer == "asked again":
        with pytest.raises(NotReady):
            await case.run(entry)
        return
    scene, pod, decision = await case.run(entry)
    VERDICTS[answer](pod, decision)
    if reason:
        assert decision.reason == reason.strip()
        assert annotations(after(pod, decision))["gpures.dev/held"].startswith(f"{decision.reason}: ")
    if case.claims is not None:
        assert sum(r.claimed for r in scene.api.stored.values()) == case.claims
    assert case.warns in "\n".join(decision.response.warnings)
    assert all(len(warning) <= 240 for warning in decision.response.warnings)
