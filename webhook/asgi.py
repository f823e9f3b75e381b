"""HTTP around one decision, as a plain ASGI callable: no framework object stands on the path of a pod."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Generic, Protocol, TypeVar

from starlette.types import Message, Receive, Scope, Send

from common.domain.errors import MalformedObject, MalformedReview
from webhook.review import MAX_BODY, Decision, NotReady, Reader, Request, encode

T = TypeVar("T")

Decide = Callable[[Request[T], float], Awaitable[Decision]]
"""Decides on one request, given the seconds that are left for it."""

_JSON = b"application/json"
_MARGIN_S = 0.5
"""What we leave of the caller's deadline for the way back."""
_DEFAULT_TIMEOUT_S = 5.0
_LONGEST_TIMEOUT_S = 30.0
_DURATION = re.compile(rb"([0-9]+(?:\.[0-9]+)?)(ms|s|m)")
_SECONDS = {b"ms": 0.001, b"s": 1.0, b"m": 60.0}


class Observer(Protocol):
    """Told of every answer; `verdict` is allowed, patched, denied, or the HTTP status where nothing was judged."""

    def answered(self, entry: str, verdict: str, reason: str, seconds: float) -> None: ...

    def failed(self, entry: str, error: Exception) -> None: ...


@dataclass(slots=True)
class Bound:
    """How many reviews this process works on at once; more than `limit` are asked to come back."""

    limit: int
    busy: int = 0


class Endpoint(Generic[T]):
    """POST of an AdmissionReview. Whatever goes wrong is answered with a status and one sentence, never a traceback."""

    def __init__(
        self,
        name: str,
        reader: Reader[T],
        decide: Decide[T],
        bound: Bound,
        observer: Observer,
        monotonic: Callable[[], float],
        leaving: Callable[[], bool] = lambda: False,
    ) -> None:
        self._name = name
        self._reader = reader
        self._decide = decide
        self._bound = bound
        self._observer = observer
        self._monotonic = monotonic
        self._leaving = leaving

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        began = self._monotonic()
        status, body, verdict, reason = await self._answer(scope, receive)
        self._observer.answered(self._name, verdict, reason, self._monotonic() - began)
        await _send(send, status, body, closing=self._leaving() or status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE)

    async def _answer(self, scope: Scope, receive: Receive) -> tuple[int, bytes, str, str]:
        if self._bound.busy >= self._bound.limit:
            return _problem(503, f"already working on {self._bound.limit} reviews, come back in a second")
        self._bound.busy += 1
        try:
            within_s = max(0.0, timeout_of(scope) - _MARGIN_S)
            async with asyncio.timeout(within_s):
                request = self._reader.read(await _read(scope, receive))
            response, verdict, reason = await self._decide(request, within_s)
        except (MalformedReview, MalformedObject, NotReady, TimeoutError) as error:
            return _problem(*_told(error))
        except Exception as error:  # noqa: BLE001 - the border: a fault of ours must not become a hang or a traceback
            self._observer.failed(self._name, error)
            return _problem(500, "the review could not be judged because of a fault in the webhook; see its log")
        finally:
            self._bound.busy -= 1
        return 200, encode(response), verdict, reason


def timeout_of(scope: Scope) -> float:
    """Seconds that the API server still waits: `?timeout=4.9s`, a Go duration."""
    query: bytes = scope.get("query_string", b"")
    for part in query.split(b"&"):
        key, _, value = part.partition(b"=")
        if key == b"timeout" and (found := _DURATION.findall(value)):
            seconds = sum(float(number) * _SECONDS[unit] for number, unit in found)
            return min(seconds, _LONGEST_TIMEOUT_S)
    return _DEFAULT_TIMEOUT_S


async def _read(scope: Scope, receive: Receive) -> bytes:
    if scope["method"] != "POST":
        raise MalformedReview(405, f"{scope['method'][:16]} is not possible here: an AdmissionReview comes by POST")
    length = _check_headers(scope)
    message = await receive()
    body: bytes = message.get("body", b"")
    if message.get("more_body", False):
        body = await _read_on(receive, body)
    if length > MAX_BODY or len(body) > MAX_BODY:
        raise _too_large()
    return body


def _check_headers(scope: Scope) -> int:
    """The announced length, or 0."""
    kind, length = b"", 0
    for name, value in scope["headers"]:
        if name == b"content-type":
            kind = value.partition(b";")[0].strip().lower()
        elif name == b"content-length" and value.isdigit():
            length = int(value)
    if kind != _JSON:
        raise MalformedReview(415, "the content type must be application/json")
    if length > MAX_BODY:
        raise _too_large()
    return length


async def _read_on(receive: Receive, first: bytes) -> bytes:
    parts, size = [first], len(first)
    more = True
    while more:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            raise MalformedReview(400, "the caller went away before the body was complete")
        part: bytes = message.get("body", b"")
        size += len(part)
        if size > MAX_BODY:
            raise _too_large()
        parts.append(part)
        more = message.get("more_body", False)
    return b"".join(parts)


def _told(error: Exception) -> tuple[int, str]:
    match error:
        case MalformedReview(status=status):
            return status, str(error)
        case NotReady():
            return 503, str(error)
        case TimeoutError():
            return 408, "the body did not arrive in time"
        case _:
            return 400, str(error)


def _too_large() -> MalformedReview:
    return MalformedReview(413, f"the body is larger than {MAX_BODY} bytes")


def _problem(status: int, message: str) -> tuple[int, bytes, str, str]:
    return status, message.encode(), str(status), ""


async def _send(send: Send, status: int, body: bytes, *, closing: bool) -> None:
    headers = [
        (b"content-type", _JSON if status == HTTPStatus.OK else b"text/plain; charset=utf-8"),
        (b"content-length", str(len(body)).encode()),
    ]
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        # Without this header the API server does not try again (anchors-reliability.md, section 1).
        headers.append((b"retry-after", b"1"))
    elif status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers.append((b"allow", b"POST"))
    if closing:
        # A process that stops sends its callers to other replicas one by one, before it cuts connections.
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
