"""What the story is told in: the product on some cluster. `PlainHouse` is a control plane of processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import TracebackType
from typing import Protocol, Self, TypeAlias

from tests.controlplane.audit import AuditEvent
from tests.controlplane.client import ApiError
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import NotInTimeError
from tests.controlplane.product import Product, Replica
from tests.controlplane.programs import Programs
from tests.controlplane.recording import Change
from tests.demo import cast

Say: TypeAlias = Callable[[str], None]
History: TypeAlias = Callable[[str], Sequence[Change]]
Refused: TypeAlias = Sequence[tuple[str, int]]
"""Pods as `alice/intruder`, and the status codes with which they were refused."""


class House(Protocol):
    """A context manager: inside of it the product is ready, with nodes of the story's classes."""

    unproved: str
    """Why it cannot be proved here in whose name something was written; empty where it can."""

    @property
    def cluster(self) -> ControlPlane:
        """Nodes and an administrator."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    def parts(self) -> Sequence[tuple[str, bool]]:
        """Names of what runs of us, and whether it is up."""
        ...

    def webhooks_away(self, say: Say) -> AbstractContextManager[None]:
        """No webhook answers until the block ends."""
        ...

    def leader(self) -> str:
        """Name of the reconciler that leads, empty while nobody does."""
        ...

    def kill_leader(self, name: str, say: Say) -> None:
        """Without giving it the time to give up its lease."""
        ...

    def replace_leader(self, name: str, say: Say) -> None:
        """Somebody stands by again."""
        ...

    def wearable(self, pod: JsonObject) -> JsonObject:
        """The pod, with a program that can be run here."""
        ...

    def audit(self, history: History, refused: Refused) -> Sequence[AuditEvent]:
        """Every write, from the API server's log, or as far as the watches saw it."""
        ...

    def keeps_logs(self) -> str:
        """Say where they are."""
        ...


class PlainHouse:
    """Starts the control plane and our processes, and ends them."""

    unproved = ""

    def __init__(self, programs: Programs, say: Say) -> None:
        self.cluster = ControlPlane(programs=programs)
        self._say = say
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._say("starting etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK")
            self.cluster.start()
            stack.callback(self.cluster.stop)
            self._say("installing deploy/, starting 2 webhooks and 2 reconcilers")
            try:
                self._product = stack.enter_context(Product(self.cluster, webhook_count=2, reconciler_count=2))
                self._say(f"adding {len(cast.NODES)} GPU nodes")
                for name, gpu_class, gpus in cast.NODES:
                    self.cluster.nodes.add_gpu_node(name, gpu_class, gpus)
            except (ApiError, NotInTimeError):
                self.keeps_logs()
                raise
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def parts(self) -> Sequence[tuple[str, bool]]:
        replicas = [*self._product.webhooks, *self._product.reconcilers]
        return [(replica.child.name, replica.child.running) for replica in replicas]

    @contextmanager
    def webhooks_away(self, say: Say) -> Iterator[None]:
        with self._product.webhooks_stopped():
            say("kill -9 webhook-0 webhook-1")
            yield
        say("both webhooks run again")

    def leader(self) -> str:
        replica = self._product.leader()
        return replica.child.name if replica else ""

    def kill_leader(self, name: str, say: Say) -> None:
        self._replica(name).child.kill()
        say(f"kill -9 {name}, which leads")

    def replace_leader(self, name: str, say: Say) -> None:
        self._replica(name).child.start()
        say(f"{name} is started again, to stand by")

    def wearable(self, pod: JsonObject) -> JsonObject:
        return pod

    def audit(self, history: History, refused: Refused) -> Sequence[AuditEvent]:
        del history, refused
        return self.cluster.audit.settled()

    def keeps_logs(self) -> str:
        self.cluster.keep_directory = True
        return f"the logs stay in {self.cluster.directory}"

    def _replica(self, name: str) -> Replica:
        return next(replica for replica in self._product.reconcilers if replica.child.name == name)
