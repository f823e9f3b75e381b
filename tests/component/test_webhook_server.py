"""The server that the API server speaks to: TLS, connections that stay open, and an end that cuts nothing off."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from certs.files import Files, Served
from certs.issue import Pair, issue_ca, issue_leaf
from common.supervise import Health
from tests.support.builders import a_class, a_reservation
from tests.support.manifests import a_pod
from tests.support.waiting import eventually
from tests.unit.webhook.scene import Scene, review
from webhook.app import Parts, create_app
from webhook.observing import Told
from webhook.server import KEEP_ALIVE_S, ReviewServer

ISSUED = datetime(2024, 1, 1, tzinfo=UTC)
CENTURY = timedelta(days=36500)


@dataclass
class Running:
    scene: Scene
    health: Health
    server: ReviewServer
    served: Served
    ca: Pair

    def client(self) -> httpx.AsyncClient:
        trusting = ssl.create_default_context(cadata=self.ca.cert.decode())
        return httpx.AsyncClient(base_url=f"https://localhost:{self.server.port}", verify=trusting, timeout=10)


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Running]:
    ca = issue_ca("test CA", ISSUED, CENTURY)
    leaf = issue_leaf(ca, ("localhost",), ISSUED, CENTURY)
    files = Files(folder / "tls.crt", folder / "tls.key")
    files.cert.write_bytes(leaf.cert)
    files.key.write_bytes(leaf.key)
    served = Served(files)
    scene, health = Scene(a_class()), Health()
    app = create_app(
        Parts(
            index=scene.index,
            committer=scene.committer,
            clock=scene.clock,
            classes_synced=lambda: scene.synced,
            synced=lambda: scene.synced,
            health=health,
            observer=Told(),
        )
    )
    server = ReviewServer(app, served.context, "127.0.0.1", 0)
    task = asyncio.create_task(server.serve())
    try:
        await eventually(lambda: server.started or task.done(), "the server has started")
        yield Running(scene, health, server, served, ca)
    finally:
        await server.stop()
        await task


async def test_reviews_are_answered_over_tls_on_one_connection(tmp_path: Path) -> None:
    async with running(tmp_path) as it, it.client() as client:
        it.scene.book(a_reservation(units=2))
        verdicts = []
        for _ in range(3):
            response = await client.post(
                "/mutate/grant?timeout=5s", content=review(a_pod()), headers={"content-type": "application/json"}
            )
            assert response.status_code == 200
            verdicts.append("warnings" in response.json()["response"])
        assert verdicts == [False, False, True]
        stream = response.extensions["network_stream"]
        assert stream.get_extra_info("ssl_object").version() == "TLSv1.3"
        assert len(client._transport._pool.connections) == 1  # type: ignore[attr-defined]  # noqa: SLF001 - no public way


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/mutate/guard", review(a_pod(annotations={"gpures.dev/claim": "1-1-x"}))),
        ("/mutate/grant", review(a_pod())),
        ("/mutate/reservations", review({"metadata": {}, "spec": {}})),
        ("/validate/reservations", review(None, operation="DELETE")),
    ],
)
async def test_every_entry_has_its_path(tmp_path: Path, path: str, body: bytes) -> None:
    async with running(tmp_path) as it, it.client() as client:
        response = await client.post(path, content=body, headers={"content-type": "application/json"})
        assert response.status_code == 200
        assert response.json()["response"]["uid"] == "review-1"
        assert response.json()["response"]["allowed"] == (path != "/mutate/guard")


async def test_the_rest_is_answered_in_plain_words(tmp_path: Path) -> None:
    async with running(tmp_path) as it, it.client() as client:
        it.health.add_ready("caches", lambda: "not every cache has synced yet")
        assert (await client.get("/livez")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.text) == (503, "caches: not every cache has synced yet\n")
        assert "gpures_webhook_review_seconds" in (await client.get("/metrics")).text
        assert (await client.get("/nowhere")).status_code == 404
        assert (await client.get("/mutate/grant")).status_code == 405


async def test_a_review_under_way_is_answered_before_the_server_ends(tmp_path: Path) -> None:
    async with running(tmp_path) as it, it.client() as client:
        it.scene.book(a_reservation())
        it.scene.api.passing.clear()
        headers = {"content-type": "application/json"}
        under_way = asyncio.create_task(client.post("/mutate/grant", content=review(a_pod()), headers=headers))
        await eventually(lambda: it.scene.api.in_flight == 1)
        stopping = asyncio.create_task(it.server.stop())
        await asyncio.sleep(0)
        it.scene.api.passing.set()
        response = await under_way
        assert json.loads(response.content)["response"]["patchType"] == "JSONPatch"
        # This client reads nothing while idle, so it would leave the server's TLS goodbye unanswered; Go's reads on.
        await client.aclose()
        await stopping


async def test_a_new_certificate_is_served_without_losing_a_request(tmp_path: Path) -> None:
    async with running(tmp_path) as it, it.client() as old, it.client() as new:
        assert (await old.get("/livez")).status_code == 200
        leaf = issue_leaf(it.ca, ("localhost",), ISSUED, CENTURY)
        (tmp_path / "tls.crt").write_bytes(leaf.cert)
        (tmp_path / "tls.key").write_bytes(leaf.key)
        assert it.served.renew()
        assert (await old.get("/livez")).status_code == 200
        response = await new.get("/livez")
        der = response.extensions["network_stream"].get_extra_info("ssl_object").getpeercert(binary_form=True)
        assert ssl.DER_cert_to_PEM_cert(der).encode().split() == leaf.cert.split()


def test_connections_outlive_what_the_api_server_keeps_idle() -> None:
    assert KEEP_ALIVE_S > 90
