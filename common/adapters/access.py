"""How to reach the API server: address, TLS and credentials, all read by the official client's own loaders.

`kubernetes.aio` loads its generated models lazily, and nothing here touches one.
"""

import asyncio
import ssl
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import structlog
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.client.rest import RESTClientObject
from kubernetes.aio.config.config_exception import ConfigException
from kubernetes.aio.config.incluster_config import load_incluster_config
from kubernetes.aio.config.kube_config import KubeConfigLoader, load_kube_config, refresh_token

AGENT = "gpu-reservations"

_log = structlog.get_logger(__name__)


class KubeSettings(Protocol):
    """What `connect` asks of the settings of a process."""

    @property
    def kubeconfig(self) -> Path | None:
        """None: in-cluster, with the service account's token read again every minute."""
        ...

    @property
    def kube_context(self) -> str:
        """Empty: the current context of the kubeconfig."""
        ...


@dataclass(frozen=True, slots=True)
class Access:
    """Everything that a request needs besides its path."""

    base: str
    tls: ssl.SSLContext
    proxy: str | None
    server_name: str | None
    configuration: Configuration

    async def authorization(self) -> str | None:
        """Value of the header; asking also lets the client's loader re-read a token that has grown old."""
        try:
            key = await self.configuration.get_api_key_with_prefix("BearerToken")
        except (ConfigException, OSError) as error:
            _log.error("api.credentials_unreadable", message=str(error))  # the old token may still do for a while
            key = self.configuration.api_key.get("BearerToken")
        return key.strip() if key else None


@asynccontextmanager
async def load(settings: KubeSettings) -> AsyncIterator[Access]:
    """Read the configuration; credentials that a plugin issues are renewed for as long as the context is open."""
    configuration = Configuration()
    renewal: asyncio.Task[None] | None = None
    if settings.kubeconfig is None:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    else:
        loader = await load_kube_config(  # type: ignore[no-untyped-call]
            config_file=str(settings.kubeconfig.expanduser()),
            context=settings.kube_context or None,
            client_configuration=configuration,
            persist_config=False,
        )
        renewal = _renewal(loader, configuration)
    try:
        yield access(configuration)
    finally:
        if renewal is not None:
            renewal.cancel()
            await asyncio.wait({renewal})


def access(configuration: Configuration) -> Access:
    """What the client's configuration says, made ready for requests."""
    tls: ssl.SSLContext = RESTClientObject(configuration).ssl_context
    base = configuration.host.rstrip("/")
    return Access(base, tls, configuration.proxy or _proxy(base), configuration.tls_server_name, configuration)


def _proxy(base: str) -> str | None:
    """The environment's proxy, looked up once; a session that does this looks again at every request."""
    url = urlsplit(base)
    if url.hostname is None or urllib.request.proxy_bypass(url.hostname):
        return None
    return urllib.request.getproxies().get(url.scheme)


def _renewal(loader: KubeConfigLoader, configuration: Configuration) -> asyncio.Task[None] | None:
    """Credentials from a plugin expire; `refresh_token` returns at once for those that do not."""
    user = loader._user  # noqa: SLF001 - `refresh_token` reads it the same way, but fails where there is none
    if user is None or (loader.provider != "gcp" and "exec" not in user):
        return None
    return asyncio.create_task(refresh_token(loader, configuration), name="kubeconfig-credentials")  # type: ignore[no-untyped-call]
