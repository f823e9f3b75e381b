"""Every row of the table of owners in docs/reference/webhook.md, and no row without a case."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from common.domain import texts
from common.domain.gpu_class import GpuClass, Mode, WithoutReservation
from common.domain.reservation import Reservation
from tests.support.builders import HOUR, NINE, a_class, a_reservation
from tests.support.clock import FakeClock
from tests.support.manifests import a_pod
from tests.unit.webhook.scene import TOLERATION, Scene, read, review
from tests.unit.webhook.tables import rows
from webhook.owners import Owners, WorkloadWire
from webhook.review import Decision

GOLDEN = Path(__file__).parents[2] / "golden"
Manifest = dict[str, Any]


def a_template(gpus: int = 1, **pod: Any) -> Manifest:
    manifest = a_pod("", gpus=gpus, created=None, **pod)
    kept = {key: manifest["metadata"].get(key) for key in ("labels", "annotations")}
    return {"metadata": {"creationTimestamp": None, **kept}, "spec": manifest["spec"]}


def an_owner(kind: str = "Job", *, labels: dict[str, str] | None = None, gpus: int = 1, **spec: Any) -> Manifest:
    """Keywords are fields of the spec; `template` replaces that of one pod of the class."""
    spec = {"template": a_template(gpus), **spec}
    return {"kind": kind, "metadata": {"name": "train", "labels": labels}, "spec": spec}


def a_cron_job(labels: dict[str, str] | None = None, job_labels: dict[str, str] | None = None, **spec: Any) -> Manifest:
    template = {"metadata": {"labels": job_labels}, "spec": an_owner(**spec)["spec"]}
    spec = {"schedule": "0 0 1 1 *", "jobTemplate": template}
    return {"kind": "CronJob", "metadata": {"name": "nightly", "labels": labels}, "spec": spec}


def started(owner: Manifest) -> Manifest:
    return {**owner, "status": {"startTime": "2026-12-01T08:00:00Z"}}


@dataclass(frozen=True)
class Case:
    """An owner, and the world that it comes into at noon: an open reservation for two unless told otherwise."""

    owner: Manifest = field(default_factory=an_owner)
    warns: str = ""
    """What the first warning has to say; empty: there must be none."""
    gpu_class: GpuClass | None = field(default_factory=a_class)
    booked: tuple[Reservation, ...] = (a_reservation(),)
    changed: bool = False
    prepare: Callable[[Scene], None] = lambda _scene: None
    more: str = ""
    """What another warning has to say."""

    async def run(self) -> Decision:
        scene = Scene(*([self.gpu_class] if self.gpu_class else []))
        for reservation in self.booked:
            scene.book(reservation)
        self.prepare(scene)
        decision = await decided(scene, self.owner, changed=self.changed)
        assert scene.api.patches == []
        return decision


async def decided(scene: Scene, owner: Manifest, *, changed: bool = False) -> Decision:
    owners = Owners(scene.index, scene.guard.refusal, scene.clock, lambda: scene.synced, texts.Display())
    operation, old = ("UPDATE", owner) if changed else ("CREATE", None)
    return await owners.decide(read(WorkloadWire, review(owner, operation=operation, old=old)), 1.5)


def not_synced(scene: Scene) -> None:
    scene.synced = False


def unsure(scene: Scene) -> None:
    scene.clock.set_uncertainty(timedelta(seconds=1.5))


LABEL = {"gpu-class": "h100"}
UNLABELLED = a_template(gpu_class="")
LATER = (a_reservation(start=14, end=18),)
FULL = (a_reservation(claims={"a": 1, "b": 1}),)
OBSERVE, WARN = (a_class(mode=mode) for mode in (Mode.OBSERVE, Mode.WARN))
ALLOW = a_class(without_reservation=WithoutReservation.ALLOW)
WILL = "its pods will be held: reservation sprint (2 × h100) opens 2026-12-01 14:00 UTC, in 2 h; "
NOW = "started now, its pods would be held: reservation sprint (2 × h100) opens 2026-12-01 14:00 UTC, in 2 h; "
TOO_EARLY = "its pods will be held until 2026-12-01 14:00 UTC (reservation sprint), but activeDeadlineSeconds {} ends "

CASES: dict[str, Case] = {
    "reservation open, room for all its pods": Case(an_owner(parallelism=8, completions=2)),
    "opens later": Case(warns=WILL, booked=LATER),
    "deadline before the window": Case(an_owner(activeDeadlineSeconds=7200), TOO_EARLY.format(7200), booked=LATER),
    "deadline of a started Job before the window": Case(
        started(an_owner(activeDeadlineSeconds=14400)), TOO_EARLY.format(14400), booked=LATER
    ),
    "deadline after the opening": Case(an_owner(activeDeadlineSeconds=7201), WILL, booked=LATER),
    "open, room for some of its pods": Case(
        an_owner(parallelism=3), "1 of its 3 pods will be held: ReservationFull: sprint holds 2 h100, all used; "
    ),
    "Deployment with more replicas than units": Case(
        an_owner("Deployment", replicas=4), "2 of its 4 pods will be held: ReservationFull: "
    ),
    "StatefulSet, nothing booked": Case(
        an_owner("StatefulSet", replicas=2), "its pods will be held: NoReservation: ", booked=()
    ),
    "CronJob, opens later": Case(a_cron_job(), NOW, booked=LATER),
    "suspended Job, opens later": Case(an_owner(suspend=True), NOW, booked=LATER),
    "Deployment of no replicas, opens later": Case(an_owner("Deployment", replicas=0), NOW, booked=LATER),
    "label outside the pod template": Case(
        an_owner("Deployment", labels=LABEL, template=UNLABELLED),
        "label gpu-class=h100 is on the Deployment and not on its pod template, so its pods name no GPU class: "
        "put it into spec.template.metadata.labels",
    ),
    "label outside the pod template of a CronJob": Case(
        a_cron_job(job_labels=LABEL, template=UNLABELLED), "into spec.jobTemplate.spec.template.metadata.labels"
    ),
    "label outside the pod template, class in Observe": Case(
        an_owner(labels=LABEL, template=UNLABELLED), gpu_class=OBSERVE
    ),
    "owner of an unknown class": Case(
        an_owner(template=a_template(gpu_class="hl00")), 'UnknownGpuClass: no class "hl00"; did you mean "h100"?'
    ),
    "owner that asks for no GPU": Case(an_owner(gpus=0), "NoGpuRequest: "),
    "template with the reserved toleration": Case(
        an_owner(template=a_template(spec={"tolerations": [TOLERATION]})),
        "its pods will be refused: toleration gpu-class-reservation is added by the reservation system",
    ),
    "template with a claim token": Case(
        an_owner(template=a_template(annotations={"gpures.dev/claim": "1764582000-1-9f3c"})),
        "its pods will be refused: annotation gpures.dev/claim",
    ),
    "template with spec.nodeName": Case(
        an_owner(template=a_template(spec={"nodeName": "node-1"})), "its pods will be refused: spec.nodeName"
    ),
    "template with if-held Refuse, opens later": Case(
        an_owner(template=a_template(annotations={"gpures.dev/if-held": "Refuse"})),
        WILL,
        booked=LATER,
        more="annotation gpures.dev/if-held is for pods without a controller",
    ),
    "changed template, all units used": Case(booked=FULL, changed=True),
    "changed template, opens later": Case(warns=WILL, booked=LATER, changed=True),
    "owner, class in Observe": Case(gpu_class=OBSERVE, booked=()),
    "owner, class in Warn, deadline before the window": Case(
        an_owner(activeDeadlineSeconds=60), WILL.replace("will", "would"), gpu_class=WARN, booked=LATER
    ),
    "owner, withoutReservation Allow, opens later": Case(
        warns="its pods: goes on without a reservation: WaitingForReservation: ", gpu_class=ALLOW, booked=LATER
    ),
    "owner, withoutReservation Allow, nothing booked": Case(gpu_class=ALLOW, booked=()),
    "owner, the API server's time known to more than a second only": Case(booked=LATER, prepare=unsure),
    "owner, no class in the cluster": Case(gpu_class=None, booked=()),
    "owner, caches not synced": Case(booked=LATER, prepare=not_synced),
}


def test_the_page_and_the_cases_are_of_one_mind() -> None:
    assert set(rows("Owners")) == set(CASES)
    assert {row.answer for row in rows("Owners").values()} == {"**as it came**"}


@pytest.mark.parametrize("what", CASES)
async def test_owner(what: str) -> None:
    case = CASES[what]
    decision = await case.run()
    assert decision.response.allowed
    assert decision.response.patch == b""
    warnings = decision.response.warnings
    assert len(warnings) == bool(case.warns) + bool(case.more)
    assert case.warns in "".join(warnings[:1])
    assert case.more in "".join(warnings[1:])
    assert all(len(warning) <= 240 for warning in warnings)
    assert bool(rows("Owners")[what].note) == bool(warnings) or case.changed or case.prepare in (not_synced, unsure)


async def test_the_warning_about_a_deadline_reads_as_its_golden_file() -> None:
    scene = Scene(a_class())
    scene.book(a_reservation())
    scene.clock = FakeClock(NINE - 14 * HOUR)
    decision = await decided(scene, an_owner(activeDeadlineSeconds=14400))
    assert [*decision.response.warnings] == (GOLDEN / "owner.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize(
    "spec", [{"activeDeadlineSeconds": 1 << 62}, {"replicas": 1 << 31}, {"parallelism": -1, "completions": 0}]
)
async def test_numbers_that_nobody_has_validated_yet_are_no_fault_of_ours(spec: Manifest) -> None:
    scene = Scene(a_class())
    scene.book(LATER[0])
    scene.book(a_reservation("open"))
    assert (await decided(scene, an_owner(**spec))).response.allowed
