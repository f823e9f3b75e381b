"""The reviews are what our webhook and the servers beside it are asked in earnest."""

from __future__ import annotations

import base64
import json

import httpx
import jsonpatch
import pytest

from common.adapters.wire import PodWire, pod_view
from tests.bench import reviews
from tests.bench.fixtures import APPS
from tests.bench.generator import Job, request_of
from webhook.review import Reader


@pytest.mark.parametrize("size", [4000, 20_000])
def test_review_has_the_size_asked_for_and_is_read_as_a_pod_of_one_unit(size: int) -> None:
    body = reviews.review("alice", "h100", dry_run=True, size=size)
    assert len(body) == size
    request = Reader(PodWire).read(body)
    assert request.dry_run
    assert request.object is not None
    pod = pod_view(request.object, request.namespace)
    assert (pod.namespace, pod.class_label) == ("alice", "h100")
    assert pod.requests["nvidia.com/gpu"] == 1


@pytest.mark.parametrize("name", sorted(APPS))
async def test_fixture_answers_with_a_patch_that_lets_the_pod_in(name: str) -> None:
    body = reviews.review("alice", "h100", dry_run=True)
    transport = httpx.ASGITransport(APPS[name]())
    async with httpx.AsyncClient(transport=transport, base_url="http://fixture") as client:
        answer = await client.post("/mutate/grant", content=body, headers={"content-type": "application/json"})
    patch = json.loads(base64.b64decode(answer.json()["response"]["patch"]))
    pod = jsonpatch.apply_patch(json.loads(body)["request"]["object"], patch)
    assert pod["spec"]["tolerations"][-1]["key"] == "gpu-class-reservation"
    assert "gpures.dev/claim" in pod["metadata"]["annotations"]
    assert pod["metadata"]["labels"]["gpures.dev/reservation"] == "sprint"


def test_request_carries_the_body_and_its_length(tmp_path_factory: pytest.TempPathFactory) -> None:
    body = tmp_path_factory.mktemp("bench") / "body.json"
    body.write_bytes(b'{"kind": "AdmissionReview"}')
    sent = request_of(Job(port=1, ca="", body=str(body), path="/mutate/grant", requests=1, pid=1))
    head, _, rest = sent.partition(b"\r\n\r\n")
    assert head.startswith(b"POST /mutate/grant HTTP/1.1\r\n")
    assert b"Content-Length: 27" in head
    assert rest == body.read_bytes()
