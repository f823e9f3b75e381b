"""`python -m webhook` as Kubernetes runs it: gets ready, answers, drains on SIGTERM, and says why it cannot start."""

import asyncio
import json
import signal
import socket
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from certs.files import Files
from certs.issue import Pair, issue_ca, issue_leaf
from tests.support.fake_api import FakeApi, serving
from tests.support.manifests import a_pod
from tests.support.waiting import eventually
from tests.unit.webhook.scene import review

ISSUED = datetime(2024, 1, 1, tzinfo=UTC)
CENTURY = timedelta(days=36500)
JSON = {"content-type": "application/json"}


@dataclass
class Process:
    child: asyncio.subprocess.Process
    port: int
    probes: str
    ca: Pair

    def client(self) -> httpx.AsyncClient:
        trusting = ssl.create_default_context(cadata=self.ca.cert.decode())
        return httpx.AsyncClient(base_url=f"https://localhost:{self.port}", verify=trusting, timeout=10)

    async def ready(self) -> str:
        try:
            async with httpx.AsyncClient(base_url=self.probes, timeout=5) as client:
                return (await client.get("/readyz")).text
        except httpx.TransportError:
            return "no answer"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def write_files(folder: Path, api: str) -> tuple[Pair, dict[str, str]]:
    """Certificates and a kubeconfig, and the environment that names them."""
    ca = issue_ca("test CA", ISSUED, CENTURY)
    leaf = issue_leaf(ca, ("localhost",), ISSUED, CENTURY)
    files = Files(folder / "tls.crt", folder / "tls.key")
    files.cert.write_bytes(leaf.cert)
    files.key.write_bytes(leaf.key)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        json.dumps(
            {
                "apiVersion": "v1",
                "kind": "Config",
                "current-context": "fake",
                "contexts": [{"name": "fake", "context": {"cluster": "fake", "user": "fake"}}],
                "clusters": [{"name": "fake", "cluster": {"server": api}}],
                "users": [{"name": "fake", "user": {}}],
            }
        )
    )
    return ca, {
        "GPURES_KUBECONFIG": str(kubeconfig),
        "GPURES_CERT_FILE": str(files.cert),
        "GPURES_KEY_FILE": str(files.key),
        "GPURES_LISTEN_HOST": "127.0.0.1",
    }


@asynccontextmanager
async def process(folder: Path, drain: str) -> AsyncIterator[Process]:
    api = FakeApi()
    async with serving(api) as kube:
        ca, environment = write_files(folder, kube._base)  # noqa: SLF001 - the fake's address, known to its client only
        port, probe_port = free_port(), free_port()
        environment |= {
            "GPURES_LISTEN_PORT": str(port),
            "GPURES_PROBE_PORT": str(probe_port),
            "GPURES_DRAIN": drain,
        }
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "webhook", env=environment, stderr=asyncio.subprocess.DEVNULL
        )
        running = Process(child, port, f"http://127.0.0.1:{probe_port}", ca)
        try:
            async with asyncio.timeout(30):
                while await running.ready() != "ok\n":
                    assert child.returncode is None
            yield running
        finally:
            if child.returncode is None:
                child.kill()
            await child.wait()


async def test_it_drains_on_sigterm_and_ends_well(tmp_path: Path) -> None:
    async with process(tmp_path, drain="2s") as it, it.client() as client:
        before = await client.post("/mutate/grant?timeout=5s", content=review(a_pod()), headers=JSON)
        assert before.json()["response"] == {"uid": "review-1", "allowed": True}
        it.child.send_signal(signal.SIGTERM)
        async with asyncio.timeout(2):
            while "stopping" not in await it.ready():
                pass
        during = await client.post("/mutate/grant?timeout=5s", content=review(a_pod()), headers=JSON)
        assert during.status_code == 200
        assert during.headers["connection"] == "close"
        async with asyncio.timeout(15):
            assert await it.child.wait() == 0


async def test_it_says_in_one_sentence_why_it_cannot_start(tmp_path: Path) -> None:
    _, environment = write_files(tmp_path, "http://127.0.0.1:1")
    (tmp_path / "tls.key").unlink()
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "webhook", env=environment, stderr=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(20):
        _, said = await child.communicate()
    assert child.returncode == 1
    assert said.decode().strip() == f"{tmp_path}/tls.key: No such file or directory"


async def test_a_review_is_answered_503_until_the_caches_are_there(tmp_path: Path) -> None:
    ca, environment = write_files(tmp_path, "http://127.0.0.1:1")
    port = free_port()
    environment |= {"GPURES_LISTEN_PORT": str(port), "GPURES_PROBE_PORT": str(free_port()), "GPURES_DRAIN": "0s"}
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "webhook", env=environment, stderr=asyncio.subprocess.DEVNULL
    )
    it = Process(child, port, "", ca)
    answers: list[httpx.Response] = []
    try:
        async with it.client() as client, asyncio.timeout(20):
            while not answers:
                try:
                    answers.append(await client.post("/mutate/grant", content=review(a_pod()), headers=JSON))
                except httpx.ConnectError:
                    continue
    finally:
        child.terminate()
        await child.wait()
    await eventually(lambda: child.returncode is not None)
    assert answers[0].status_code == 503
    assert answers[0].headers["retry-after"] == "1"
