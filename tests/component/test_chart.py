"""The chart, installed by helm on a real control plane, and its processes run as its manifests say."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from common.domain import keys
from tests.chart import helm
from tests.chart.release import READY_S, Release
from tests.component.builders import CLASSES, RESERVATIONS, gates, gpu_class, pod, reservation
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.kubeconfig import read_kubeconfig
from tests.controlplane.polling import until

pytestmark = pytest.mark.controlplane

SYSTEM = helm.NAMESPACE
NAME = "h100"
LABEL = {"gpu-class": NAME}
HELD = 100
VALUES = {"webhook": {"drainSeconds": 0}, "uninstall": {"quietSeconds": 2}}
UNINSTALL_PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "uninstall.md"


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as running:
        running.nodes.add_gpu_node("gpu-0", NAME, 2)
        yield running


@pytest.fixture(scope="module")
def installed(cluster: ControlPlane) -> Iterator[Release]:
    release = Release(cluster, VALUES)
    release.install()
    until(lambda: served(cluster), READY_S, "our kinds are served")
    cluster.admin.create(gpu_class(NAME))
    release.start()
    until(lambda: held_by_policy(cluster), READY_S, "the hold policy is in force")
    until(lambda: physical(cluster) == 2, READY_S, "the class is counted")
    yield release
    release.stop()


def served(cluster: ControlPlane) -> bool:
    done = cluster.kubectl("get", "gpuclasses,gpureservations", "-A", check=False)
    return done.returncode == 0


def held_by_policy(cluster: ControlPlane) -> bool:
    return gates(cluster.admin.create(pod("probe", labels=LABEL), dry_run=True).object) == [keys.GATE]


def physical(cluster: ControlPlane) -> int:
    return int(cluster.admin.get(CLASSES, NAME).get("status", {}).get("units", {}).get("physical", 0))


def ours(cluster: ControlPlane) -> set[str]:
    """Kind of everything in the cluster that says it is of this product."""
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name").stdout.split()
    label = "app.kubernetes.io/name=gpu-reservations"
    found = cluster.kubectl("get", ",".join(kinds), "-A", "-l", label, "-o", "name", deadline_s=60).stdout.split()
    return {name.partition("/")[0] for name in found}


def hold_many(cluster: ControlPlane, count: int) -> Sequence[str]:
    """Pods that wait for a reservation, in a namespace of their own each ten."""
    names = [cluster.unique_namespace("crowd") for _ in range(count // 10)]

    def create(number: int) -> None:
        stored = cluster.admin.create(pod(f"waiting-{number}", labels=LABEL), namespace=names[number % len(names)])
        assert gates(stored.object) == [keys.GATE]

    with ThreadPoolExecutor(20) as pool:
        list(pool.map(create, range(count)))
    return names


def crowd(cluster: ControlPlane, names: Sequence[str]) -> Sequence[JsonObject]:
    return [entry for name in names for entry in cluster.admin.items("pods", name)]


def test_a_pod_is_let_in_and_the_next_one_is_held(installed: Release) -> None:
    admin, namespace = installed.cluster.admin, installed.cluster.unique_namespace("alice")
    admin.create(reservation("sprint", {"gpuClass": NAME, "units": 1}), namespace=namespace)
    until(
        lambda: admin.get(RESERVATIONS, "sprint", namespace).get("status", {}).get("phase") == "Active",
        READY_S,
        "the reservation is active",
    )
    ask = pod("first", labels=LABEL)
    until(lambda: not gates(admin.create(ask, namespace=namespace, dry_run=True).object), READY_S, "webhooks know it")
    first = admin.create(ask, namespace=namespace)
    assert gates(first.object) == []
    assert first.object["metadata"]["annotations"][keys.BOOKING_REFERENCE] == "sprint"
    second = admin.create(pod("second", labels=LABEL), namespace=namespace)
    assert gates(second.object) == [keys.GATE]
    assert "ReservationFull" in second.warnings[0]
    until(lambda: admin.get("pods", "first", namespace)["status"].get("phase") == "Running", READY_S, "the pod runs")


def test_the_install_check_finds_nothing_wrong(installed: Release) -> None:
    cluster = installed.cluster
    account = cluster.directory / "check-account"
    account.mkdir()
    documents = helm.render(VALUES)
    cluster.admin.apply(helm.one(documents, "ServiceAccount", "gpures-install-check"), field_manager="helm")
    connection = read_kubeconfig(cluster.kubeconfig_for_service_account(SYSTEM, "gpures-install-check"))
    (account / "token").write_text(str(connection.token))
    (account / "ca.crt").write_bytes(connection.ca.read_bytes())
    server = urlsplit(cluster.server)
    code, said = installed.hook(
        "test",
        "gpures-install-check",
        KUBERNETES_SERVICE_HOST=str(server.hostname),
        KUBERNETES_SERVICE_PORT=str(server.port),
        GPURES_CHECK_ACCOUNT=str(account),
    )
    assert (code, said.splitlines()[-1]) == (
        0,
        "all is well: kinds served, guard and grant answer, enforced classes hold",
    )


def test_an_upgrade_keeps_the_certificate_and_what_others_wrote(installed: Release) -> None:
    admin = installed.cluster.admin
    secret = admin.get("secrets", "gpures-webhook-tls", SYSTEM)["data"]
    registered = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
    before = admin.get(registered, "zz-gpures")["webhooks"]
    louder = VALUES | {"logLevel": "debug"}
    installed.helm("upgrade", helm.RELEASE, str(helm.CHART), values=louder)
    deployment = admin.get("deployments.apps", "gpures-webhook", SYSTEM)
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    assert {"name": "GPURES_LOG_LEVEL", "value": "debug"} in environment
    assert admin.get("secrets", "gpures-webhook-tls", SYSTEM)["data"] == secret
    assert admin.get(registered, "zz-gpures")["webhooks"] == before
    assert admin.find(CLASSES, NAME) is not None
    installed.helm("rollback", helm.RELEASE)


def test_uninstalling_leaves_no_pod_behind_our_gate_and_nothing_but_the_crds(installed: Release) -> None:
    cluster = installed.cluster
    names = hold_many(cluster, HELD)
    with installed.reconcilers_end_with_their_deployment():
        code, said = installed.hook("pre-delete", "gpures-uninstall")
    assert code == 0, said
    installed.stop()
    installed.helm("uninstall", helm.RELEASE)
    pods = crowd(cluster, names)
    assert len(pods) == HELD
    assert [entry["metadata"]["name"] for entry in pods if gates(entry)] == []
    written = {key for entry in pods for key in entry["metadata"].get("annotations", {})}
    assert {key for key in written if key.startswith(("gpures.dev/", "galends/"))} == set()
    conditions = {each["type"] for entry in pods for each in entry["status"].get("conditions", [])}
    assert keys.HELD_CONDITION not in conditions
    until(lambda: ours(cluster) == {"customresourcedefinition.apiextensions.k8s.io"}, READY_S, "nothing but the CRDs")
    assert cluster.admin.find(CLASSES, NAME) is not None


def commands(language: str) -> Sequence[str]:
    return re.findall(rf"```{language}\n(.*?)```", UNINSTALL_PAGE.read_text(), re.DOTALL)


def test_the_break_glass_command_helps_when_our_namespace_is_gone(cluster: ControlPlane, installed: Release) -> None:
    """As after `kubectl delete namespace`: policies and webhook configurations stand, nobody is there to answer."""
    installed.install()
    until(lambda: held_by_policy(cluster), READY_S, "the hold policy is in force again")
    names = hold_many(cluster, 10)
    cluster.admin.delete("namespaces", SYSTEM)
    until(lambda: cluster.admin.find("namespaces", SYSTEM) is None, READY_S, "our namespace is gone")
    off, openers = commands("sh")
    for line in off.strip().splitlines():
        shell(cluster, line)
    until(lambda: not held_by_policy(cluster), READY_S, "nobody holds any more")
    shell(cluster, openers)
    assert [entry["metadata"]["name"] for entry in crowd(cluster, names) if gates(entry)] == []
    left = ours(cluster)
    assert not {kind for kind in left if "admission" in kind or "webhook" in kind}, left


def shell(cluster: ControlPlane, line: str) -> None:
    kubectl = cluster.layout.programs.kubectl
    child = cluster.run(
        "break-glass",
        ["bash", "-euc", line],
        env={
            "PATH": f"{kubectl.parent}:/usr/bin:/bin",
            "KUBECONFIG": str(cluster.admin_kubeconfig),
            "HOME": str(cluster.directory),
        },
    )
    assert child.wait(60) == 0, child.tail()
