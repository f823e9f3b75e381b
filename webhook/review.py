"""AdmissionReview v1: only the fields that a decision needs, and one constructor for every legal answer."""

from collections.abc import Sequence
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from common.domain import texts
from common.domain.errors import GpuresError, MalformedReview
from common.domain.ports import JsonPatch

MAX_BODY: Final = 4 * 1024 * 1024
"""An object of etcd is at most 1.5 MiB; an UPDATE carries the old and the new one, and the envelope is small."""

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"

T = TypeVar("T")


class NotReady(GpuresError):
    """Cannot be answered now: 503 with Retry-After, which the API server follows up within its own deadline."""


class User(msgspec.Struct, frozen=True, gc=False):
    username: str = ""


class Request(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    uid: str
    operation: str = ""
    namespace: str = ""
    name: str = ""
    user_info: User = User()
    dry_run: bool = False
    object: T | None = None
    old_object: T | None = None


class _Review(msgspec.Struct, Generic[T], frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    request: Request[T] | None = None


class Status(msgspec.Struct, frozen=True, gc=False):
    code: int
    reason: str
    message: str


class Response(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """`response` as the API server reads it; `patch` is written as base64."""

    uid: str
    allowed: bool
    patch_type: str = ""
    patch: bytes = b""
    warnings: tuple[str, ...] = ()
    status: Status | None = None


class Decision(NamedTuple):
    """Made by `allowed`, `patched` and `denied` only. `reason` is from a closed list, for metrics."""

    response: Response
    verdict: str
    reason: str


class _Answer(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    response: Response


class Reader(Generic[T]):
    """Decodes reviews of one kind of object."""

    def __init__(self, type_: type[T]) -> None:
        self._decoder: msgspec.json.Decoder[_Review[T]] = msgspec.json.Decoder(_Review[type_])  # type: ignore[valid-type]

    def read(self, body: bytes) -> Request[T]:
        try:
            review = self._decoder.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            message = f"the body is not an {KIND} that can be read: {texts.clip(str(error), 200)}"
            raise MalformedReview(400, message) from error
        if review.api_version != API_VERSION or review.kind != KIND:
            got = f"{texts.quoted(review.kind)} of {texts.quoted(review.api_version)}"
            raise MalformedReview(400, f"expected an {KIND} of {API_VERSION}, got {got}")
        if review.request is None or not review.request.uid:
            raise MalformedReview(400, f"the {KIND} has no request with a uid")
        return review.request


def allowed(uid: str, warnings: Sequence[str] = (), reason: str = "") -> Decision:
    """Lets the object on as it came."""
    return Decision(Response(uid, allowed=True, warnings=_printable(warnings)), "allowed", reason)


def patched(uid: str, operations: JsonPatch, warnings: Sequence[str] = (), reason: str = "") -> Decision:
    """Without operations this is `allowed`: a patch type without a patch is not legal."""
    if not operations:
        return allowed(uid, warnings, reason)
    patch = msgspec.json.encode(operations)
    response = Response(uid, allowed=True, patch_type="JSONPatch", patch=patch, warnings=_printable(warnings))
    return Decision(response, "patched", reason)


def denied(uid: str, message: str, reason: str = "") -> Decision:
    """Refuses with 403; kubectl prints the message behind the name of the webhook."""
    status = Status(403, "Forbidden", texts.clip(message, 1024))
    return Decision(Response(uid, allowed=False, status=status), "denied", reason)


_encoder = msgspec.json.Encoder()


def encode(response: Response) -> bytes:
    """The whole AdmissionReview as JSON."""
    return _encoder.encode(_Answer(API_VERSION, KIND, response))


def _printable(warnings: Sequence[str]) -> tuple[str, ...]:
    return tuple(texts.clip(warning, texts.WARNING_LIMIT) for warning in warnings)
