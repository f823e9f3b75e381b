"""Install check, run by `helm test`: the kinds are served, the guard refuses, the grant answers, enforced classes hold.

The standard library alone, so that it says the same whatever is wrong with our own code. It creates pods and
reservations in dry runs only.
"""

# ruff: noqa: INP001, TID251 - a script that runs for real, outside of our packages

from __future__ import annotations

import argparse
import json
import os
import ssl
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
OURS = "/apis/gpures.dev/v1alpha1"
GATE = "gpures.dev/hold"
STAMP = "gpures.dev/created-by"
WELL = "all is well: kinds served, guard and grant answer, enforced classes hold"
WELL_SO_FAR = "all is well: kinds served, the webhook answers; there is no GPUClass yet, so pods pass untouched"
DEADLINE_S = 60.0
OK = 200
CREATED = 201
FORBIDDEN = 403


class Cluster:
    """The API server as this pod's account sees it."""

    def __init__(self) -> None:
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self._base = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        account = Path(os.environ.get("GPURES_CHECK_ACCOUNT", ACCOUNT))
        self._token = (account / "token").read_text()
        self._tls = ssl.create_default_context(cafile=str(account / "ca.crt"))

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict, list[str]]:
        """Status, object and warnings."""
        request = urllib.request.Request(  # noqa: S310 - the scheme is ours
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, context=self._tls, timeout=15) as answer:  # noqa: S310 - same
                return answer.status, json.load(answer), answer.headers.get_all("Warning") or []
        except urllib.error.HTTPError as error:
            return error.code, json.load(error), []


def pod(*, gpu_class: str = "", annotations: dict[str, str] | None = None, resources: dict | None = None) -> dict:
    """A pod that fits the pod security standard "restricted"."""
    security = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "gpures-install-check",
            "labels": {"gpu-class": gpu_class} if gpu_class else {},
            "annotations": annotations or {},
        },
        "spec": {
            "securityContext": {"runAsNonRoot": True, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [
                {
                    "name": "none",
                    "image": "example.invalid/none",
                    "resources": {"limits": resources or {}},
                    "securityContext": security,
                }
            ],
        },
    }


def problems(cluster: Cluster, namespace: str) -> list[str]:
    """Everything that is not as it should be, one sentence each."""
    found = []
    for kind in ("gpuclasses", "gpureservations"):
        code, answer, _ = cluster.ask("GET", f"{OURS}/{kind}?limit=100")
        if code != OK:
            found.append(f"{kind} are not served: {code} {answer.get('message')}")
        elif kind == "gpuclasses":
            classes = answer["items"]
    if found:
        return found
    if not classes:
        return unanswered(cluster, namespace)
    create = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    code, answer, _ = cluster.ask("POST", create, pod(annotations={"gpures.dev/claim": "1-1-install-check"}))
    message = str(answer.get("message"))
    if code != FORBIDDEN or "guard.gpures.dev" not in message or "denied the request" not in message:
        found.append(f"a pod with a forged claim is not refused by the guard: {code} {message}")
    code, answer, warnings = cluster.ask("POST", create, pod(gpu_class="gpures-install-check"))
    if code != CREATED or not any("UnknownGpuClass" in warning for warning in warnings):
        found.append(f"the grant does not warn of an unknown class: {code} {answer.get('message', '')} {warnings}")
    found += [problem for each in classes if holds(each) and (problem := not_held(cluster, create, each))]
    return found


def unanswered(cluster: Cluster, namespace: str) -> list[str]:
    """Without a class every pod passes untouched; that the webhook is reached shows in a reservation's stamp."""
    body = {
        "apiVersion": "gpures.dev/v1alpha1",
        "kind": "GPUReservation",
        "metadata": {"name": "gpures-install-check"},
        "spec": {"gpuClass": "gpures-install-check", "units": 1, "duration": "1h"},
    }
    code, answer, _ = cluster.ask("POST", f"{OURS}/namespaces/{namespace}/gpureservations?dryRun=All", body)
    if code == CREATED and STAMP in answer["metadata"].get("annotations", {}):
        return []
    return [f"a reservation is not stamped by the webhook: {code} {answer.get('message', '')}"]


def holds(gpu_class: dict) -> bool:
    """Whether a pod of the class is held when nothing is booked."""
    spec = gpu_class["spec"]
    return spec["mode"] == "Enforce" and spec["withoutReservation"] == "Hold" and not spec.get("modeFor")


def not_held(cluster: Cluster, create: str, gpu_class: dict) -> str | None:
    """What is wrong with a pod of the class; one that a reservation of the namespace lets in is right as well."""
    label = gpu_class["spec"].get("labelValue") or gpu_class["metadata"]["name"]
    resources = gpu_class["spec"]["unit"]["resources"]
    code, answer, _ = cluster.ask("POST", create, pod(gpu_class=label, resources=resources))
    if code != CREATED:
        return f"a pod of class {label} is refused: {code} {answer.get('message')}"
    gates = [gate["name"] for gate in answer["spec"].get("schedulingGates", [])]
    tolerates = any(t.get("key") == "gpu-class-reservation" for t in answer["spec"].get("tolerations", []))
    return None if GATE in gates or tolerates else f"a pod of class {label} is neither held nor let in"


def main() -> int:
    """Ask again until all is well or the time is up: API servers learn of policies within seconds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--namespace", required=True, help="where pods are created in dry runs")
    parser.add_argument("--deadline", type=float, default=DEADLINE_S, help="seconds")
    arguments = parser.parse_args()
    cluster = Cluster()
    end = time.monotonic() + arguments.deadline
    while (found := problems(cluster, arguments.namespace)) and time.monotonic() < end:
        time.sleep(1)
    well = WELL if cluster.ask("GET", f"{OURS}/gpuclasses?limit=1")[1].get("items") else WELL_SO_FAR
    for line in found or [well]:
        sys.stdout.write(f"{line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
