"""`gpures-reconciler --report` on a cluster where GPU pods ran before anything of ours was there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.component.builders import CLASSES, DEADLINE_S, gpu_class, pod
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.install import install
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

NAME = "report-h100"
RECONCILER = "system:serviceaccount:gpures-system:gpures-reconciler"
ROOT = Path(__file__).resolve().parents[2]


def report(control_plane: ControlPlane) -> str:
    """What the program prints with the account and the rights of the reconciler, and nothing else of ours running."""
    kubeconfig = control_plane.kubeconfig_for_service_account("gpures-system", "gpures-reconciler")
    done = subprocess.run(
        [sys.executable, "-P", "-m", "reconciler", "--report"],
        env={"GPURES_KUBECONFIG": str(kubeconfig), "PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_report_names_who_would_be_held_and_changes_nothing(control_plane: ControlPlane) -> None:
    admin = control_plane.admin
    install(admin)
    alice = control_plane.unique_namespace("alice")
    control_plane.nodes.add_gpu_node("report-node", NAME, 4)
    admin.create(gpu_class(NAME, {"mode": "Observe"}))
    try:
        # One tolerates the taint as pods did before us, one has the label already.
        exact = {"key": "gpu-class-reservation", "operator": "Exists"}
        admin.create(pod("old", tolerations=[exact]), namespace=alice)
        admin.create(pod("new", labels={"gpu-class": NAME}), namespace=alice)
        until(lambda: admin.get("pods", "old", alice)["status"]["phase"] == "Running", DEADLINE_S, "the old pod runs")
        before = len(control_plane.audit.settled())
        lines = [line.split() for line in report(control_plane).splitlines()]
        since = [event for event in control_plane.audit.settled()[before:] if event.by == RECONCILER]
    finally:
        admin.delete("namespaces", alice)
        admin.delete(CLASSES, NAME)
        control_plane.nodes.remove("report-node")
    assert {event.verb for event in since} == {"list"}
    assert {"pods", "gpuclasses", "gpureservations"} <= {event.resource for event in since}
    theirs = [line for line in lines if line[:1] == [alice]]
    assert [line[1:4] for line in theirs] == [["Pod/new", NAME, "held"], ["Pod/old", NAME, "refused"]]
    assert theirs[0][4:7] == ["NoReservation", "1", "1"]
    assert [line for line in lines if line[:1] == [NAME]] == [[NAME, "Observe", "0", "1", "1", "0", "1"]]
