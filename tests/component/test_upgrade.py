"""From the chart and the programs of the commit before to this tree's, back, and forward again, all in flight."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from common.domain import keys
from tests.chart import helm
from tests.chart.pods import ROOT
from tests.chart.release import Release
from tests.component.builders import CLASSES, RESERVATIONS, gates, gpu_class, pod, reservation
from tests.component.flight import Flight
from tests.controlplane.client import ApiClient
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.e2e import reading
from tests.faults.auditor import Auditor
from tests.faults.timing import wall, whole_second
from tests.support.older import PROGRAMS, NoHistoryError, older

pytestmark = [pytest.mark.controlplane, pytest.mark.timeout(300)]

log = logging.getLogger(__name__)

NAME = "h100"
GPUS_A_NODE, NODES = 100, 4
READY_S = 60.0
VALUES = {"webhook": {"drainSeconds": 2}}
PARTS = ("deploy", *PROGRAMS)
ENOUGH_CANARIES = 20
OPEN, TIGHT, FAR = ("open", 200), ("tight", 1), ("far", 5)


@dataclass
class Scene:
    """A release of the commit before, with what goes on all the while."""

    cluster: ControlPlane
    release: Release
    auditor: Auditor
    namespace: str
    earlier: Path

    @property
    def admin(self) -> ApiClient:
        return self.cluster.admin

    def pod(self, name: str) -> JsonObject:
        return self.admin.get("pods", name, self.namespace)

    def reservation(self, name: str) -> JsonObject:
        return self.admin.get(RESERVATIONS, name, self.namespace)

    def book(self, name: str, units: int, phase: str, **spec: str) -> None:
        wanted = {"gpuClass": NAME, "units": units, **spec}
        self.admin.create(reservation(name, wanted), namespace=self.namespace)
        until(lambda: reading.phase(self.reservation(name)) == phase, READY_S, f"{name} is {phase}")

    def create(self, name: str, uses: str) -> None:
        asked = pod(name, labels={keys.CLASS_LABEL: NAME}, annotations={keys.USE_RESERVATION: uses})
        self.admin.create(asked, namespace=self.namespace)

    def runs(self, name: str) -> None:
        until(lambda: reading.phase(self.pod(name)) == "Running", READY_S, f"{name} runs")

    def standing(self) -> Mapping[str, object]:
        """What nothing may change: pods that run and what they run on, who waits and why, promises."""
        running = {name: self.pod(name) for name in ("runner", "tight-0")}
        return {
            "pods": {name: (found["metadata"]["uid"], reading.phase(found)) for name, found in running.items()},
            "claims": {name: reading.annotations(found)[keys.CLAIM] for name, found in running.items()},
            "waits": (gates(self.pod("tight-1")), reading.reason(self.pod("tight-1"))),
            "promises": {name: self.reservation(name)["status"]["granted"] for name, _ in (OPEN, TIGHT, FAR)},
        }


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with ControlPlane() as cluster:
        try:
            before = older(cluster.directory / "older", *PARTS)
        except NoHistoryError as error:
            pytest.skip(f"there is no commit to come from: {error}")
        nodes = [cluster.nodes.add_gpu_node(f"gpu-{number}", NAME, GPUS_A_NODE) for number in range(NODES)]
        release = Release(cluster, VALUES, before)
        release.install()
        until(
            lambda: cluster.kubectl("get", "gpuclasses", check=False).returncode == 0, READY_S, "our kinds are served"
        )
        cluster.admin.create(gpu_class(NAME))
        release.start()
        try:
            until(lambda: units(cluster) == GPUS_A_NODE * NODES, READY_S, "the class is counted")
            with Auditor(cluster.admin, NAME, GPUS_A_NODE * NODES, nodes) as auditor:
                scene = Scene(cluster, release, auditor, cluster.unique_namespace("alice"), before)
                settle(scene)
                yield scene
        finally:
            release.stop()


def units(cluster: ControlPlane) -> int:
    return int(cluster.admin.get(CLASSES, NAME).get("status", {}).get("units", {}).get("physical", 0))


def settle(scene: Scene) -> None:
    scene.book(*OPEN, "Active")
    scene.book(*TIGHT, "Active")
    scene.book(*FAR, "Confirmed", start=reading.on_the_wire(whole_second(wall() + timedelta(days=1))))
    for name, uses in (("runner", "open"), ("tight-0", "tight")):
        scene.create(name, uses)
        scene.runs(name)
    scene.create("tight-1", "tight")
    until(lambda: reading.reason(scene.pod("tight-1")) == "ReservationFull", READY_S, "tight-1 is told why it waits")


@pytest.mark.parametrize("step", ["up", "back", "up again"])
def test_reservations_and_pods_in_flight_do_not_notice(scene: Scene, step: str) -> None:
    """Each is the state in which the next begins."""
    release, before = scene.release, scene.standing()
    with Flight(scene.admin, scene.namespace, NAME, step.replace(" ", "-")) as flight:
        until(lambda: flight.windows and flight.pods, READY_S, "something is in flight")
        if step == "back":
            release.tree = scene.earlier
            release.helm("rollback", helm.RELEASE)
        else:
            release.tree = ROOT
            release.install()
        release.roll()
        seen = len(flight.windows)
        until(lambda: len(flight.windows) > seen, READY_S, "one more window, of the new processes alone")
    flight.arrive()
    assert flight.failures == []
    assert flight.canaries > ENOUGH_CANARIES
    assert scene.standing() == before
    assert [str(violation) for violation in scene.auditor.judge()] == []
    log.info(
        "%s between %s and this tree: %d windows, %d pods, %d canaries",
        step,
        scene.earlier.name,
        len(flight.windows),
        len(flight.pods),
        flight.canaries,
    )


def test_who_waited_all_the_while_is_let_in_when_there_is_room(scene: Scene) -> None:
    scene.auditor.ends(found for found in scene.auditor.pods(scene.namespace) if found.name == "tight-0")
    scene.admin.delete("pods", "tight-0", scene.namespace, grace_s=0)
    scene.runs("tight-1")
    assert [str(violation) for violation in scene.auditor.judge()] == []
