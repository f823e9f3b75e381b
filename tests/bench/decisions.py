"""CPU of the server per admission review of 4 KB, beside four other servers.

All of them behind TLS with kept connections, on one core, asked in turns over 8 connections.
"""

from __future__ import annotations

import base64
import json
import os
import socket
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from common.domain import keys
from tests.bench import generator, gopeers, reviews, workers
from tests.bench.arithmetic import percentile, ratios
from tests.bench.figures import Figure, Outcome, Verdict, absolute, figure
from tests.bench.processes import pin, rss_mb
from tests.bench.profiling import profiled
from tests.bench.scene import CLASS, Scene, in_turns
from tests.bench.store import ROOT
from tests.controlplane.polling import until
from tests.controlplane.processes import Child, free_port

NAME = "decisions"
SERVER_CPU, GENERATOR_CPU = 0, 1
CONNECTIONS = 8
START_S = 30.0
# 220 µs over 160 µs of the constant-reply server: the class that anchors-performance.md measured.
OVER_CONSTANT = 1.38
# Of a claim in the API server's ledger, which none of the others writes, each decision carries a share.
LEAST_TIMES = {"ordinary": 8.0, "controller": 5.0}
PEERS = {
    "constant": "constant-reply server (uvicorn)",
    "small": "small Go server",
    "ordinary": "json + make_patch (Starlette)",
    "controller": "controller-runtime way (Go)",
}
SHAPES = {"held": "pod held", "dry": "pod let in, dry run", "claimed": "pod let in, with its claim"}
# Of a machine that is so busy that claims miss their two seconds nothing can be said.
LEAST_LET_IN = 0.9
Values = dict[str, list[float]]


@dataclass(frozen=True)
class Server:
    child: Child
    port: int


def run(scene: Scene) -> Outcome:
    rounds = scene.several(7, 2)
    cpu_us, p99_ms = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    with _peers(scene) as peers:
        measure = _measuring(scene, peers)
        for name in (*peers, "held", "dry"):
            measure(name, scene.several(500, 50))
        for number, name in in_turns((*peers, *SHAPES), rounds):
            count = scene.several(_count(name), 100)
            sent = measure(name, count)
            cpu_us[name].append(sent.cpu_s / sent.requests * 1e6)
            p99_ms[name].append(percentile(sent.latencies_ms, 0.99))
            scene.say(f"round {number + 1} of {rounds}: {name} {cpu_us[name][-1]:.0f} µs")
        memory = rss_mb(scene.webhook.child.pid)
        figures = _figures(cpu_us, p99_ms)
        figures.append(figure(NAME, "webhook: resident memory", [memory], "MB"))
        missed = any(found.verdict is Verdict.MISSED for found in figures)
        profiles = [_profile(scene, measure, shape) for shape in SHAPES] if missed else []
    return Outcome(NAME, figures, profiles)


def _count(name: str) -> int:
    """A reservation takes 1,024 claims; the ordinary way takes its time."""
    return {"claimed": 400, "ordinary": 1500}.get(name, 5000)


def _figures(cpu_us: Values, p99_ms: Values) -> list[Figure]:
    found = []
    for shape, told in SHAPES.items():
        ours = absolute("ours", cpu_us[shape], "µs")
        for peer, peer_told in PEERS.items():
            beside = [ours, absolute("the other", cpu_us[peer], "µs")]
            if peer in LEAST_TIMES:
                times = ratios(cpu_us[peer], cpu_us[shape])
                name = f"{told}: times less CPU than the {peer_told}"
                found.append(figure(NAME, name, times, at_least=LEAST_TIMES[peer], absolutes=beside))
                continue
            target = OVER_CONSTANT if peer == "constant" and shape != "claimed" else None
            over = ratios(cpu_us[shape], cpu_us[peer])
            found.append(figure(NAME, f"{told}: CPU ÷ that of the {peer_told}", over, at_most=target, absolutes=beside))
    for name, told in {**SHAPES, **PEERS}.items():
        found.append(figure(NAME, f"{told}: p99 of an answer, {CONNECTIONS} connections", p99_ms[name], "ms"))
    return found


def _measuring(scene: Scene, peers: dict[str, Server]) -> Callable[[str, int], generator.Sent]:
    """A function that sends so many requests to one of the servers and checks what it answers."""
    authority, *_ = scene.certificate
    webhook = Server(scene.webhook.child, scene.webhook.port)
    opened, empty = scene.namespace(), scene.namespace()
    scene.book(opened, 64)

    def measure(name: str, count: int) -> generator.Sent:
        namespace = {"held": empty, "claimed": ""}.get(name, opened) or scene.namespace()
        if name == "claimed":
            # Claims that no pod is stored with are orphans a minute later: each round has a reservation of its own.
            scene.book(namespace, count + 1)
        body = scene.cluster.directory / f"review-{name}.json"
        body.write_bytes(reviews.review(namespace, CLASS, dry_run=name != "claimed"))
        server = peers.get(name, webhook)
        pin(server.child.pid, SERVER_CPU)
        job = generator.Job(
            port=server.port,
            ca=str(authority),
            body=str(body),
            path="/mutate/grant?timeout=5s",
            requests=count,
            pid=server.child.pid,
            connections=CONNECTIONS,
            cpu=GENERATOR_CPU,
        )
        sent = workers.generate(job)
        _check(name, sent.first)
        if name == "claimed":
            _check_claims(scene, namespace, count + 1)
            scene.clear(namespace)
        return sent

    return measure


def _check(name: str, answer: str) -> None:
    """What answers something else is quick, but no measure of anything."""
    response = json.loads(answer)["response"]
    patch = base64.b64decode(response.get("patch", "")).decode()
    wanted = keys.GATE if name == "held" else keys.CLAIM
    # Where the pod has annotations the key is a step of a path, in which a slash is written ~1.
    if not response["allowed"] or wanted not in patch.replace("~1", "/"):
        message = f"{name} answered {answer[:300]} with patch {patch[:300]}"
        raise workers.WorkerError(message)


def _check_claims(scene: Scene, namespace: str, count: int) -> None:
    claims = scene.admin.get("gpureservations.gpures.dev", "sprint", namespace)["status"].get("claims", {})
    if len(claims) < LEAST_LET_IN * count:
        message = f"{len(claims)} claims stand after {count} reviews"
        raise workers.WorkerError(message)


@contextmanager
def _peers(scene: Scene) -> Iterator[dict[str, Server]]:
    """All of them run all the time and are asked in turns."""
    _, certificate, key = (str(path) for path in scene.certificate)
    commands: dict[str, Callable[[int], Sequence[str]]] = {
        name: lambda port, name=name: (  # type: ignore[misc]
            sys.executable,
            "-m",
            "tests.bench.fixtures",
            name,
            str(port),
            certificate,
            key,
        )
        for name in ("constant", "ordinary")
    }
    for name, program in (("small", "gosmall"), ("controller", "gocontroller")):
        path = gopeers.build(program)
        commands[name] = _go(path, certificate, key)
    environment = dict(os.environ) | {"GOMAXPROCS": "1"}
    servers: dict[str, Server] = {}
    try:
        for name, command in commands.items():
            port = free_port()
            servers[name] = Server(scene.cluster.run(f"peer-{name}", command(port), env=environment, cwd=ROOT), port)
        for name, server in servers.items():
            until(lambda port=server.port: _listens(port), START_S, f"{name} listens")  # type: ignore[misc]
        yield servers
    finally:
        for server in servers.values():
            server.child.terminate()


def _go(path: Path, certificate: str, key: str) -> Callable[[int], Sequence[str]]:
    return lambda port: (str(path), f"-address=127.0.0.1:{port}", f"-certificate={certificate}", f"-key={key}")


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1.0)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _profile(scene: Scene, measure: Callable[[str, int], generator.Sent], shape: str) -> str:
    report = scene.folder / f"{scene.name}-webhook-{shape}.txt"
    return profiled(scene.product, scene.webhook, report, lambda: measure(shape, scene.several(_count(shape), 100)))
