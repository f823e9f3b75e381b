"""Who talks to which API server: connections, and the kubeconfig files that say the same."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.controlplane.pki import Pair, write_private


@dataclass(frozen=True)
class Connection:
    """An API server, the authority that vouches for it, and our identity there: a certificate or a token."""

    server: str
    ca: Path
    pair: Pair | None = None
    token: str | None = None

    def tls(self) -> ssl.SSLContext:
        """Return a TLS context that trusts this authority alone and shows our certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if self.pair is not None:
            context.load_cert_chain(self.pair.certificate, self.pair.key)
        return context

    def headers(self) -> dict[str, str]:
        """Return the headers that carry our identity."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}


def write_kubeconfig(path: Path, connection: Connection) -> Path:
    """Write a kubeconfig with one context."""
    user: dict[str, str] = {}
    if connection.pair is not None:
        user = {"client-certificate": str(connection.pair.certificate), "client-key": str(connection.pair.key)}
    if connection.token is not None:
        user["token"] = connection.token
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": "test", "cluster": {"server": connection.server, "certificate-authority": str(connection.ca)}}
        ],
        "users": [{"name": "test", "user": user}],
        "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test", "namespace": "default"}}],
        "current-context": "test",
    }
    return write_private(path, yaml.safe_dump(content, sort_keys=False).encode())


def read_kubeconfig(path: Path) -> Connection:
    """Read back a kubeconfig that write_kubeconfig wrote."""
    content = yaml.safe_load(path.read_text())
    cluster, user = content["clusters"][0]["cluster"], content["users"][0]["user"]
    pair = Pair(Path(user["client-certificate"]), Path(user["client-key"])) if "client-certificate" in user else None
    return Connection(cluster["server"], Path(cluster["certificate-authority"]), pair, user.get("token"))
