"""Servers to stand beside: what admission costs in the ordinary ways.

    python -m tests.bench.fixtures constant|ordinary PORT CERTIFICATE KEY

constant: uvicorn, set up as ours is, answering the same bytes whatever comes: what Python cannot go below this way.
ordinary: Starlette with `json`, the pod copied, changed and compared by `jsonpatch.make_patch`, as tutorials have it.
"""

from __future__ import annotations

import base64
import copy
import json
import sys
from typing import Any

import jsonpatch
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

CLAIM = "1764582000-1-9f3c"
TOLERATION = {"key": "gpu-class-reservation", "operator": "Equal", "value": "h100", "effect": "NoSchedule"}


def _constant() -> ASGIApp:
    patch: list[dict[str, Any]] = [
        {"op": "add", "path": "/spec/tolerations/-", "value": TOLERATION},
        {"op": "add", "path": "/metadata/annotations/gpures.dev~1claim", "value": CLAIM},
        {"op": "add", "path": "/metadata/labels/gpures.dev~1reservation", "value": "sprint"},
    ]
    body = json.dumps(_answer("0", patch)).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]

    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body", False):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    return app


def _ordinary() -> ASGIApp:
    async def mutate(request: Request) -> JSONResponse:
        review = await request.json()
        pod = review["request"]["object"]
        changed = copy.deepcopy(pod)
        changed["spec"].setdefault("tolerations", []).append(TOLERATION)
        changed["metadata"].setdefault("annotations", {})["gpures.dev/claim"] = CLAIM
        changed["metadata"].setdefault("labels", {})["gpures.dev/reservation"] = "sprint"
        patch = jsonpatch.make_patch(pod, changed).patch
        return JSONResponse(_answer(review["request"]["uid"], patch))

    return Starlette(routes=[Route("/mutate/grant", mutate, methods=["POST"])])


def _answer(uid: str, patch: list[dict[str, Any]]) -> dict[str, Any]:
    encoded = base64.b64encode(json.dumps(patch).encode()).decode()
    response = {"uid": uid, "allowed": True, "patchType": "JSONPatch", "patch": encoded}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}


APPS = {"constant": _constant, "ordinary": _ordinary}


def main() -> None:
    name, port, certificate, key = sys.argv[1:]
    uvicorn.run(
        APPS[name](),
        host="127.0.0.1",
        port=int(port),
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=125,
        ssl_certfile=certificate,
        ssl_keyfile=key,
    )


if __name__ == "__main__":
    main()
