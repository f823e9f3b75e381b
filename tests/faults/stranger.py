"""Another mutating webhook, which comes after ours: it takes the gate off pods, or adds a container with a GPU."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from aiohttp import web

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.loop_thread import LoopThread
from tests.faults.facts import GATE, GPU

NAME: Final = "zzz-stranger"
CONFIGURATION: Final = "mutatingwebhookconfigurations.admissionregistration.k8s.io"


class Stranger:
    """Context manager; only pods of these namespaces come to it."""

    def __init__(self, cluster: ControlPlane, namespaces: Sequence[str]) -> None:
        self.stripped = self.added = 0
        self._cluster = cluster
        self._namespaces = list(namespaces)

    def __enter__(self) -> Self:
        self._thread = LoopThread(NAME)
        port = self._thread.run(self._open())
        entry = {
            "name": "stranger.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "failurePolicy": "Ignore",
            "timeoutSeconds": 2,
            "clientConfig": {
                "url": f"https://127.0.0.1:{port}/",
                "caBundle": base64.b64encode(self._cluster.ca.file.read_bytes()).decode(),
            },
            "namespaceSelector": {
                "matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "In", "values": self._namespaces}
                ]
            },
            "objectSelector": {"matchLabels": {"faults.test/role": "normal"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        }
        kind = {"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"}
        self._cluster.admin.create(kind | {"metadata": {"name": NAME}, "webhooks": [entry]})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.admin.delete(CONFIGURATION, NAME)
        self._thread.run(self._runner.cleanup())
        self._thread.stop()

    async def _open(self) -> int:
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/", self._review)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        pair = self._cluster.ca.server(NAME)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(pair.certificate, pair.key)
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=context).start()
        port: int = self._runner.addresses[0][1]
        return port

    async def _review(self, request: web.Request) -> web.Response:
        review = await request.json()
        patch = self._patch(review["request"]["object"])
        response: JsonObject = {"uid": review["request"]["uid"], "allowed": True}
        if patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})

    def _patch(self, pod: JsonObject) -> Sequence[JsonObject]:
        """In turn: strip, add."""
        gates = [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]
        if GATE in gates and self.stripped <= self.added:
            self.stripped += 1
            return [{"op": "remove", "path": "/spec/schedulingGates"}]
        self.added += 1
        resources = {"limits": {GPU: "1"}, "requests": {GPU: "1"}}
        container = {"name": "sidecar", "image": "busybox", "resources": resources}
        return [{"op": "add", "path": "/spec/containers/-", "value": container}]
