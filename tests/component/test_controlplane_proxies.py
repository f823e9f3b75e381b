"""The harness's proxies: faults between a process and the API server, and the stand-in for a Service."""

from __future__ import annotations

import base64
import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.controlplane.api_proxy import ApiProxy
from tests.controlplane.client import ApiClient, ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import never, until
from tests.controlplane.processes import Child, free_port
from tests.controlplane.proxy_rules import DROP, Gate, answering, calling, dropping, holding, in_turn
from tests.controlplane.services import service_splitter
from tests.controlplane.splitter import BackEnd, Splitter

pytestmark = pytest.mark.controlplane


def proxied(cp: ControlPlane, proxy: ApiProxy, namespace: str) -> ApiClient:
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": namespace}],
    }
    cp.admin.create(binding, namespace=namespace)
    return ApiClient.from_kubeconfig(cp.kubeconfig_for_service_account(namespace, "default", server=proxy.server))


def config_map(name: str) -> JsonObject:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}


def test_proxy_drops_before_and_after(control_plane: ControlPlane, namespace: str, api_proxy: ApiProxy) -> None:
    with proxied(control_plane, api_proxy, namespace) as client:
        client.create(config_map("passes"), namespace=namespace)
        api_proxy.rule(dropping(), method="POST", path="/configmaps", nth=2)
        client.create(config_map("first"), namespace=namespace)
        with pytest.raises(httpx.TransportError):
            client.create(config_map("never"), namespace=namespace)
        api_proxy.rule(dropping(), method="POST", body='"unknown"', when="after")
        with pytest.raises(httpx.TransportError):
            client.create(config_map("unknown"), namespace=namespace)
        api_proxy.rule(answering(503, "ServiceUnavailable"), method="POST")
        with pytest.raises(ApiError, match="503"):
            client.create(config_map("refused"), namespace=namespace)
        names = {item["metadata"]["name"] for item in client.items("configmaps", namespace)}
        assert {"passes", "first", "unknown"} <= names
        assert not {"never", "refused"} & names
        assert [exchange.json["metadata"]["name"] for exchange in api_proxy.writes()][-1] == "refused"


def test_proxy_holds_a_write_at_a_gate(control_plane: ControlPlane, namespace: str, api_proxy: ApiProxy) -> None:
    gate = Gate()
    with proxied(control_plane, api_proxy, namespace) as client:
        api_proxy.rule(holding(gate), method="POST", path="/configmaps")
        writer = threading.Thread(target=client.create, args=(config_map("held"),), kwargs={"namespace": namespace})
        writer.start()
        assert gate.wait_reached(5.0).json["metadata"]["name"] == "held"
        assert control_plane.admin.find("configmaps", "held", namespace) is None
        gate.open()
        writer.join(10.0)
        assert control_plane.admin.find("configmaps", "held", namespace) is not None


def test_proxy_kills_a_process_between_two_writes(
    control_plane: ControlPlane, namespace: str, api_proxy: ApiProxy
) -> None:
    proxied(control_plane, api_proxy, namespace).close()
    kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "default", server=api_proxy.server)
    kubectl = str(control_plane.layout.programs.kubectl)
    command = [kubectl, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", "create", "configmap", "last-word"]
    crashing = Child(command, control_plane.directory / "crashing.log")
    api_proxy.rule(calling(crashing.kill, then=DROP), method="POST", path="/configmaps", when="after")
    crashing.start()
    assert crashing.wait(20.0) == -9
    assert control_plane.admin.find("configmaps", "last-word", namespace) is not None


def test_proxy_freezes_a_process_between_two_writes(
    control_plane: ControlPlane, namespace: str, api_proxy: ApiProxy, tmp_path: Path
) -> None:
    proxied(control_plane, api_proxy, namespace).close()
    kubeconfig = control_plane.kubeconfig_for_service_account(namespace, "default", server=api_proxy.server)
    kubectl = str(control_plane.layout.programs.kubectl)
    manifest = tmp_path / "two.json"
    manifest.write_text("\n".join(json.dumps(config_map(name)) for name in ("one", "two")))
    command = [kubectl, f"--kubeconfig={kubeconfig}", f"--namespace={namespace}", "create", "-f", str(manifest)]
    frozen, gate = Child(command, control_plane.directory / "frozen.log"), Gate()
    freeze = in_turn(calling(frozen.freeze), holding(gate))
    api_proxy.rule(freeze, method="POST", path="/configmaps", when="after")
    frozen.start()
    gate.wait_reached(20.0)
    gate.open()
    assert control_plane.admin.find("configmaps", "one", namespace) is not None
    never(lambda: control_plane.admin.find("configmaps", "two", namespace), 0.5, "second write of a frozen process")
    frozen.thaw()
    assert frozen.wait(20.0) == 0
    assert control_plane.admin.find("configmaps", "two", namespace) is not None


def test_proxy_stalls_one_watch(control_plane: ControlPlane, namespace: str, api_proxy: ApiProxy) -> None:
    with proxied(control_plane, api_proxy, namespace) as client:
        seen: dict[str, list[str]] = {"configmaps": [], "secrets": []}

        def follow(key: str) -> None:
            with client.watch(key, namespace, resource_version="0", timeout_s=30) as events:
                for event in events:
                    seen[key].append(event.object["metadata"]["name"])
                    if event.object["metadata"]["name"] == "late":
                        return

        followers = [threading.Thread(target=follow, args=(key,), daemon=True) for key in seen]
        for follower in followers:
            follower.start()
        until(lambda: "kube-root-ca.crt" in seen["configmaps"], 10.0, "first event")
        stall = api_proxy.stall_watches("/configmaps")
        control_plane.admin.create(config_map("late"), namespace=namespace)
        control_plane.admin.create(config_map("late") | {"kind": "Secret"}, namespace=namespace)
        until(lambda: "late" in seen["secrets"], 10.0, "event of the other watch")
        assert stall.gate.wait_reached(5.0, "stalled line") is not None
        assert "late" not in seen["configmaps"]
        stall.release()
        until(lambda: "late" in seen["configmaps"], 10.0, "event that was kept back")
        for follower in followers:
            follower.join(10.0)


def test_proxy_partition_ends(control_plane: ControlPlane, namespace: str, api_proxy: ApiProxy) -> None:
    with proxied(control_plane, api_proxy, namespace) as client:
        with api_proxy.partitioned(), pytest.raises(httpx.TransportError):
            client.items("pods", namespace)
        assert client.items("pods", namespace) == []


@contextmanager
def greeter(text: bytes) -> Iterator[BackEnd]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    connection.sendall(text)

        threading.Thread(target=serve, daemon=True).start()
        yield BackEnd("127.0.0.1", server.getsockname()[1])
        # Wakes the thread, which close() alone does not.
        server.shutdown(socket.SHUT_RDWR)


def greeting(splitter: Splitter) -> bytes:
    with socket.create_connection((splitter.host, splitter.port), timeout=5) as connection:
        return connection.recv(10)


def test_splitter_balances_and_skips_the_dead() -> None:
    dead = BackEnd("127.0.0.1", free_port())
    with greeter(b"a") as a, greeter(b"b") as b, Splitter(a, dead, b) as splitter:
        assert sorted(greeting(splitter) for _ in range(6)).count(b"a") in {2, 3, 4}
        splitter.remove(a)
        assert {greeting(splitter) for _ in range(4)} == {b"b"}
        splitter.remove(b)
        assert greeting(splitter) == b""
        splitter.add(a)
        assert greeting(splitter) == b"a"


@contextmanager
def webhook(control_plane: ControlPlane, host: str, answer: JsonObject) -> Iterator[BackEnd]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            reply = {
                "apiVersion": "admission.k8s.io/v1",
                "kind": "AdmissionReview",
                "response": answer | {"uid": review["request"]["uid"]},
            }
            content = json.dumps(reply).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    pair = control_plane.ca.server(host, [host])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.certificate, pair.key)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield BackEnd("127.0.0.1", server.server_address[1])
        server.shutdown()
        thread.join(10.0)


def test_webhook_is_found_through_its_service(control_plane: ControlPlane, namespace: str) -> None:
    host = f"hook.{namespace}.svc"
    refusal = {"allowed": False, "status": {"code": 403, "message": "no, says the hook"}}
    entry = {
        "name": "hook.test.gpures.dev",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "timeoutSeconds": 2,
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "clientConfig": {
            "caBundle": base64.b64encode(control_plane.ca.pem).decode(),
            "service": {"namespace": namespace, "name": "hook", "port": 8443},
        },
    }
    meta = {"name": namespace}
    api_version, kind = "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"
    key = "validatingwebhookconfigurations.admissionregistration.k8s.io"

    def refused() -> bool:
        try:
            control_plane.admin.create(config_map("any"), namespace=namespace, dry_run=True)
        except ApiError as error:
            return "no, says the hook" in error.message
        return False

    with (
        webhook(control_plane, host, refusal) as back_end,
        service_splitter(control_plane, namespace, "hook", back_end, port=8443) as splitter,
    ):
        control_plane.admin.create({"apiVersion": api_version, "kind": kind, "metadata": meta, "webhooks": [entry]})
        until(refused, 10.0, "refusal by the webhook")
        assert splitter.served[back_end] >= 1
        splitter.remove(back_end, cut=True)
        until(lambda: not refused(), 10.0, "the webhook's absence")
        control_plane.admin.delete(key, namespace)
