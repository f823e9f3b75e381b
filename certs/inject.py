"""The CA bundle in our two webhook configurations, entry by entry."""

import asyncio
import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from certs.store import TIMEOUT_S, Api
from common.adapters import paths
from common.adapters.kube import JSON_PATCH
from common.domain.errors import MalformedObject, NotFound

NAME: Final = "zz-gpures"
PATHS: Final = {"mutating": paths.mutating_webhooks(NAME), "validating": paths.validating_webhooks(NAME)}


@dataclass(frozen=True, slots=True)
class Configuration:
    path: str
    version: str
    spec: tuple[str, int]
    """Uid and generation: another one means that somebody changed an entry meanwhile, even if it looks the same."""
    bundles: tuple[bytes, ...]


class _ClientConfig(msgspec.Struct, rename="camel"):
    ca_bundle: str | None = None


class _Entry(msgspec.Struct, rename="camel"):
    client_config: _ClientConfig


class _Metadata(msgspec.Struct, rename="camel"):
    resource_version: str
    uid: str = ""
    generation: int = 0


class _Stored(msgspec.Struct):
    metadata: _Metadata
    webhooks: list[_Entry] | None = None


_stored: Final = msgspec.json.Decoder(_Stored)


async def read(api: Api) -> Sequence[Configuration]:
    """Those of the two that are there; raises ApiError for everything but "not there"."""
    found = await asyncio.gather(*(_read(api, path) for path in PATHS.values()))
    return [configuration for configuration in found if configuration is not None]


async def inject(api: Api, configuration: Configuration, bundle: bytes) -> None:
    """Every entry at once; raises Conflict when the configuration is not any more as it was read."""
    encoded = base64.b64encode(bundle).decode()
    # A version that does not match answers 409 to `replace`, but 422 to `test`, as a refusal does.
    operations: list[dict[str, str]] = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": configuration.version}
    ]
    operations += [
        {"op": "add", "path": f"/webhooks/{index}/clientConfig/caBundle", "value": encoded}
        for index, present in enumerate(configuration.bundles)
        if present != bundle
    ]
    await api.request("PATCH", configuration.path, body=operations, content_type=JSON_PATCH, timeout_s=TIMEOUT_S)


async def _read(api: Api, path: str) -> Configuration | None:
    try:
        answer = await api.request("GET", path, timeout_s=TIMEOUT_S)
    except NotFound:
        return None
    try:
        stored = _stored.decode(answer.body)
    except msgspec.DecodeError as error:
        message = f"{path}: {error}"
        raise MalformedObject(message) from error
    meta = stored.metadata
    bundles = tuple(_decoded(entry.client_config.ca_bundle) for entry in stored.webhooks or ())
    return Configuration(path, meta.resource_version, (meta.uid, meta.generation), bundles)


def _decoded(text: str | None) -> bytes:
    try:
        return base64.b64decode(text or "", validate=True)
    except (binascii.Error, ValueError):
        return b""
