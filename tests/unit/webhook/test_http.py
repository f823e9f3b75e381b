"""The border: every row of the HTTP table, and that answers are what the API server can read."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from common.adapters.wire import PodWire, pod_view
from tests.support.manifests import a_pod
from tests.unit.webhook.scene import review
from tests.unit.webhook.tables import rows
from webhook.asgi import Bound, Endpoint, timeout_of
from webhook.review import MAX_BODY, Decision, Reader, Request, allowed, denied, encode, patched

JSON = {"content-type": "application/json"}


class Heard:
    def __init__(self) -> None:
        self.answers: list[tuple[str, str, str]] = []
        self.faults: list[Exception] = []

    def answered(self, entry: str, verdict: str, reason: str, seconds: float) -> None:
        self.answers.append((entry, verdict, reason))

    def failed(self, entry: str, error: Exception) -> None:
        self.faults.append(error)


class Client:
    """One endpoint that allows everything, spoken to as an ASGI server would."""

    def __init__(self, limit: int = 8, *, fault: bool = False, leaving: bool = False) -> None:
        self.heard = Heard()
        self.fault = fault
        self.bound = Bound(limit)
        self.within_s = 0.0
        self.endpoint = Endpoint(
            "grant", Reader(PodWire), self.decide, self.bound, self.heard, lambda: 0.0, lambda: leaving
        )

    async def decide(self, request: Request[PodWire], within_s: float) -> Decision:
        if self.fault:
            msg = "our own mistake, with /secret/paths"
            raise RuntimeError(msg)
        self.within_s = within_s
        if request.object is not None:
            pod_view(request.object)
        return allowed(request.uid)

    async def send(
        self,
        *body: bytes,
        method: str = "POST",
        headers: Mapping[str, str] = JSON,
        query: bytes = b"timeout=5s",
        complete: bool = True,
    ) -> tuple[int, dict[str, str], bytes]:
        scope = {
            "type": "http",
            "method": method,
            "path": "/mutate/grant",
            "query_string": query,
            "headers": [(key.encode(), value.encode()) for key, value in headers.items()],
        }
        parts = self._parts(body, complete=complete)
        sent: list[Any] = []

        async def collect(message: Any) -> None:
            sent.append(message)

        await self.endpoint(scope, parts.__anext__, collect)
        start, content = sent
        found = {key.decode(): value.decode() for key, value in start["headers"]}
        assert int(found["content-length"]) == len(content["body"])
        return start["status"], found, content["body"]

    @staticmethod
    async def _parts(body: tuple[bytes, ...], *, complete: bool) -> AsyncIterator[Any]:
        for number, part in enumerate(body, start=1):
            yield {"type": "http.request", "body": part, "more_body": number < len(body) or not complete}
        await asyncio.Event().wait()


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(review(a_pod())), **fields}).encode()


HTTP: dict[str, dict[str, Any]] = {
    "malformed JSON": {"body": [b'{"kind": "AdmissionReview", ']},
    "a body that is not UTF-8": {"body": [review(a_pod()).replace(b"review-1", b"\xff\xfe")]},
    "JSON nested a hundred thousand deep": {
        "body": [b'{"request":{"uid":"u","object":{"metadata":{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}}}}"]
    },
    "another version of AdmissionReview": {"body": [changed(apiVersion="admission.k8s.io/v1beta1")]},
    "another kind": {"body": [changed(kind="ConversionReview")]},
    "no request in it": {"body": [changed(request=None)]},
    "GET": {"body": [b""], "method": "GET"},
    "a body over 4 MiB, announced": {"body": [b"{}"], "headers": {**JSON, "content-length": str(MAX_BODY + 1)}},
    "a body over 4 MiB, in chunks": {"body": [b" " * (1 << 20)] * 5},
    "another content type": {"body": [review(a_pod())], "headers": {"content-type": "text/yaml"}},
    "a body that does not arrive": {"body": [b"{"], "complete": False, "query": b"timeout=0.53s"},
    "more reviews at once than the process takes": {"body": [review(a_pod())], "limit": 0},
    "a fault of ours": {"body": [review(a_pod())], "fault": True},
    "a negative GPU quantity": {"body": [review(a_pod(gpus="-1"))]},
}


def test_the_page_and_the_cases_are_of_one_mind() -> None:
    assert set(rows("HTTP")) == set(HTTP)


@pytest.mark.parametrize("what", HTTP)
async def test_http(what: str) -> None:
    case = dict(HTTP[what])
    client = Client(case.pop("limit", 8), fault=case.pop("fault", False))
    status, headers, body = await client.send(*case.pop("body"), **case)
    assert str(status) == rows("HTTP")[what].answer
    sentence = body.decode()
    assert 10 < len(sentence) < 400
    assert "\n" not in sentence
    assert "Traceback" not in sentence
    assert "/secret/" not in sentence
    assert client.heard.answers == [("grant", str(status), "")]
    assert bool(client.heard.faults) == (status == 500)
    assert (headers.get("retry-after") == "1") == (status == 503)
    assert (headers.get("allow") == "POST") == (status == 405)
    assert client.bound.busy == 0


async def test_the_uid_is_echoed_in_a_review_of_the_same_version() -> None:
    client = Client()
    status, headers, body = await client.send(review(a_pod()))
    assert status == 200
    assert headers["content-type"] == "application/json"
    assert json.loads(body) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "review-1", "allowed": True},
    }
    assert client.within_s == 4.5


async def test_a_process_that_stops_lets_go_of_its_callers() -> None:
    status, headers, _ = await Client(leaving=True).send(review(a_pod()))
    assert status == 200
    assert headers["connection"] == "close"
    assert "connection" not in (await Client().send(review(a_pod())))[1]


async def test_a_content_type_may_name_its_charset() -> None:
    status, _, _ = await Client().send(review(a_pod()), headers={"content-type": "Application/JSON; charset=utf-8"})
    assert status == 200


async def test_a_body_may_come_in_pieces() -> None:
    body = review(a_pod())
    status, _, _ = await Client().send(body[:100], body[100:200], body[200:])
    assert status == 200


async def test_a_caller_that_goes_away_ends_the_review() -> None:
    client = Client()
    messages = iter(
        [
            {"type": "http.request", "body": b"{", "more_body": True},
            {"type": "http.disconnect"},
        ]
    )

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        pass

    scope = {"type": "http", "method": "POST", "path": "/", "headers": [(b"content-type", b"application/json")]}
    await client.endpoint(scope, receive, send)
    assert client.heard.answers == [("grant", "400", "")]


@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (b"timeout=5s", 5.0),
        (b"timeout=4.75s", 4.75),
        (b"a=b&timeout=900ms", 0.9),
        (b"timeout=1m30s", 30.0),
        (b"timeout=soon", 5.0),
        (b"", 5.0),
    ],
)
def test_the_callers_deadline_is_a_go_duration(query: bytes, seconds: float) -> None:
    assert timeout_of({"type": "http", "query_string": query}) == pytest.approx(seconds)


def test_a_patch_is_base64_and_named_as_one() -> None:
    operations = [{"op": "add", "path": "/a", "value": "b"}]
    response = json.loads(encode(patched("u", operations, ["careful"]).response))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == operations
    assert response["warnings"] == ["careful"]


def test_no_operations_make_no_patch() -> None:
    assert encode(patched("u", []).response) == encode(allowed("u").response)


def test_a_refusal_has_a_code_and_one_clean_sentence() -> None:
    response = json.loads(encode(denied("u", "not\nlike this").response))["response"]
    assert response == {
        "uid": "u",
        "allowed": False,
        "status": {"code": 403, "reason": "Forbidden", "message": "not?like this"},
    }


def test_warnings_are_cut_to_what_kubectl_shows() -> None:
    assert len(allowed("u", ["x" * 1000]).response.warnings[0]) == 240
