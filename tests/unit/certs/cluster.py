"""An API server in memory with our webhook configurations, and a rotation on a clock that a test moves."""

import base64
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Self

from certs.facts import Authorities, leaf_of, pair_of
from certs.issue import Pair
from certs.run import Rotation
from common.config import CertificateSettings
from common.domain.errors import Conflict
from tests.support.clock import FakeClock
from tests.support.fake_kube import FakeKube

NAMESPACE = "gpures-system"
TLS, CA = "gpures-webhook-tls", "gpures-webhook-ca"
SERVICE_NAME = "gpures-webhook.gpures-system.svc"
MUTATING, VALIDATING = "mutatingwebhookconfigurations", "validatingwebhookconfigurations"
DAY, MINUTE = timedelta(days=1), timedelta(minutes=1)


def entry(name: str) -> dict[str, Any]:
    return {"name": name, "clientConfig": {"service": {"name": "gpures-webhook", "namespace": NAMESPACE}}}


@dataclass
class Cluster:
    kube: FakeKube = field(default_factory=FakeKube)
    clock: FakeClock = field(default_factory=FakeClock)
    leads: bool = True

    def __post_init__(self) -> None:
        self.rotation = self.leader()

    async def install(self) -> Self:
        """Settled, and with no request remembered."""
        self.configure()
        await self.rotation.settle()
        self.kube.requests.clear()
        return self

    def leader(self, **settings: Any) -> Rotation:
        """Another process: what the one before knew is gone."""
        return Rotation(
            self.kube,
            CertificateSettings(**settings),
            self.clock,
            leads=lambda: self.leads,
            read=self.clock.monotonic,
            sleep=self.clock.sleep,
        )

    def configure(self, generation: int = 1) -> None:
        """As an installer does: without a bundle."""
        for plural, entries in ((MUTATING, ("guard", "grant", "stamp")), (VALIDATING, ("reservations",))):
            meta = {"name": "zz-gpures", "uid": f"{plural}-{generation}", "generation": generation}
            self.kube.put(plural, {"metadata": meta, "webhooks": [entry(f"{name}.gpures.dev") for name in entries]})

    def secret(self, name: str) -> dict[str, bytes]:
        stored = self.kube.get("secrets", NAMESPACE, name)["data"]
        return {key: base64.b64decode(value) for key, value in stored.items()}

    def put_secret(self, name: str, **data: bytes) -> None:
        encoded = {key.replace("_", "."): base64.b64encode(value).decode() for key, value in data.items()}
        self.kube.put("secrets", {"metadata": {"name": name, "namespace": NAMESPACE}, "data": encoded})

    def delete_secret(self, name: str) -> None:
        self.kube.remove("secrets", NAMESPACE, name)

    def leaf(self) -> Pair:
        return pair_of(self.secret(TLS))

    def ca(self) -> bytes:
        return self.secret(CA)["tls.crt"]

    def bundles(self) -> list[bytes]:
        return [
            base64.b64decode(entry["clientConfig"].get("caBundle", ""))
            for plural in (MUTATING, VALIDATING)
            if (plural, "", "zz-gpures") in self.kube.objects
            for entry in self.kube.get(plural, "", "zz-gpures")["webhooks"]
        ]

    def bundle(self) -> list[bytes]:
        """The certificates in the bundle that every entry has."""
        (common,) = set(self.bundles())
        return certificates(common)

    def verifies(self) -> bool:
        """Whether what is stored is trusted by every entry."""
        for bundle in self.bundles():
            authorities = Authorities()
            authorities.of(bundle)
            leaf = leaf_of(self.leaf(), authorities)
            if leaf is None or not leaf.issuer or not leaf.valid.holds(self.clock.now()):
                return False
        return True

    def collide(self, method: str, path: str) -> None:
        """The next such write meets somebody who was quicker."""

        def quicker() -> None:
            raise Conflict(409, "the object has been modified")

        self.kube.when(method, path, quicker)


def certificates(bundle: bytes) -> list[bytes]:
    end = b"-----END CERTIFICATE-----\n"
    return [part + end for part in bundle.split(end) if part]
