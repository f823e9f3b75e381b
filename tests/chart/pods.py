"""Runs a rendered pod template as a process: its command, its environment, its account, this machine's interpreter.

Each "pod" has a loopback address of its own, so that replicas listen on the very ports of the template.
"""

from __future__ import annotations

import base64
import itertools
import sys
from dataclasses import dataclass
from pathlib import Path

import httpx

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.processes import Child

ROOT = Path(__file__).resolve().parents[2]
_hosts = itertools.count(11)


@dataclass(eq=False)
class RunningPod:
    """A process that stands for a pod."""

    child: Child
    host: str
    container: JsonObject
    tree: Path = ROOT

    def port(self, name: str) -> int:
        return next(int(port["containerPort"]) for port in self.container["ports"] if port["name"] == name)

    def ready(self) -> bool:
        """As the kubelet asks."""
        asked = self.container["readinessProbe"]["httpGet"]
        url = f"http://{self.host}:{self.port(asked['port'])}{asked['path']}"
        try:
            return httpx.get(url, timeout=2).status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False


def run(
    cluster: ControlPlane, name: str, namespace: str, spec: JsonObject, programs: Path = ROOT, **also: str
) -> RunningPod:
    """Start the only container of a pod spec with the programs of a folder.

    `also` is environment that stands for the machine it runs on.
    """
    (container,) = spec["containers"]
    host = f"127.0.0.{next(_hosts)}"
    environment = {entry["name"]: _value(entry, name) for entry in container.get("env", [])}
    for mount in container.get("volumeMounts", []):
        folder = _volume(cluster, namespace, spec, mount["name"], name)
        environment = {key: _moved(value, mount["mountPath"], folder) for key, value in environment.items()}
        container = container | {
            part: [_moved(str(word), mount["mountPath"], folder) for word in container.get(part, [])]
            for part in ("command", "args")
        }
    account = spec["serviceAccountName"]
    environment |= {
        "GPURES_KUBECONFIG": str(cluster.kubeconfig_for_service_account(namespace, account)),
        "GPURES_LISTEN_HOST": host,
        # Before what is installed here, which may be another tree.
        "PYTHONPATH": str(programs),
        **also,
    }
    command: list[str] = [str(word) for word in [*container["command"], *container.get("args", [])]]
    command[0] = str(Path(sys.executable).parent / command[0])
    child = cluster.run(name, command, env=environment, cwd=programs)
    return RunningPod(child, host, container, programs)


def _value(entry: JsonObject, pod_name: str) -> str:
    if "value" in entry:
        return str(entry["value"])
    assert entry["valueFrom"]["fieldRef"]["fieldPath"] == "metadata.name"
    return pod_name


def _moved(text: str, mount: str, folder: Path) -> str:
    return f"{folder}{text.removeprefix(mount)}" if text.startswith(f"{mount}/") else text


def _volume(cluster: ControlPlane, namespace: str, spec: JsonObject, volume: str, pod_name: str) -> Path:
    """A folder with what the Secret or ConfigMap of the volume holds."""
    source = next(entry for entry in spec["volumes"] if entry["name"] == volume)
    folder = cluster.directory / f"{pod_name}-{volume}"
    folder.mkdir()
    if "secret" in source:
        data = cluster.admin.get("secrets", source["secret"]["secretName"], namespace).get("data", {})
        for item in source["secret"]["items"]:
            (folder / item["path"]).write_bytes(base64.b64decode(data[item["key"]]))
    else:
        for key, text in cluster.admin.get("configmaps", source["configMap"]["name"], namespace)["data"].items():
            (folder / key).write_text(text)
    return folder
