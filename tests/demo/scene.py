"""What a step of the story can do: act as a user, break a part, wait for what follows, and note it for the proofs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.controlplane.audit import AuditEvent
from tests.controlplane.client import ApiClient, ApiError, Reply
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.demo import cast, reading
from tests.demo.chronicle import Chronicle
from tests.demo.evidence import Record, Trail, trails
from tests.demo.house import House
from tests.demo.model import Topic
from tests.demo.pace import Pace
from tests.demo.watch import Watching

DEADLINE_S = 20.0


@dataclass(eq=False)
class Scene:
    """One run of the story."""

    house: House
    watching: Watching
    chronicle: Chronicle
    pace: Pace
    record: Record = field(default_factory=Record)

    def user(self, name: str) -> ApiClient:
        return self.house.cluster.admin.as_user(name)

    def book(
        self, user: str, name: str, gpu_class: str, units: int, lasts: timedelta, start: datetime | None = None
    ) -> JsonObject:
        """Create a reservation as its user, and wait for the answer of the leader."""
        manifest = cast.reservation(name, gpu_class, units, lasts, start)
        opens = f" from {start:%H:%M:%S}" if start else ""
        self._says(user, f"books {units} \N{MULTIPLICATION SIGN} {gpu_class} as {name}{opens}")
        self._warned(user, self.user(user).create(manifest, namespace=user))
        decided = ("Confirmed", "Active", "Denied")
        return self.reservation(user, name, lambda found: reading.phase(found) in decided, "decided")

    def submit(self, user: str, manifest: JsonObject) -> Reply:
        """Create a pod as its user."""
        self._says(user, f"creates pod {manifest['metadata']['name']}")
        reply = self.user(user).create(self.house.wearable(manifest), namespace=user)
        self._warned(user, reply)
        return reply

    def refused(self, user: str, manifest: JsonObject) -> str:
        """Create a pod that must be refused, and return the sentence; empty where it was not."""
        try:
            self.submit(user, manifest)
        except ApiError as error:
            self._reads(user, "is refused", error.message)
            self.record.refused.append((f"{user}/{manifest['metadata']['name']}", error.code))
            return error.message
        finally:
            self.record.forged.append(f"{user}/{manifest['metadata']['name']}")
        return ""

    def complete(self, user: str, name: str) -> None:
        """Let a running pod end well, as its program would."""
        self.house.cluster.nodes.complete_pod(user, name)

    def pod(self, user: str, name: str, wanted: Callable[[JsonObject], bool], what: str) -> JsonObject:
        return self._until("pods", f"{user}/{name}", wanted, what)

    def running(self, user: str, *names: str) -> None:
        for name in names:
            self.pod(user, name, lambda found: reading.phase(found) == "Running", "running")

    def reservation(self, user: str, name: str, wanted: Callable[[JsonObject], bool], what: str) -> JsonObject:
        return self._until("reservations", f"{user}/{name}", wanted, what)

    def trail(self, user: str, name: str) -> Trail:
        """What was written to a pod."""
        return trails(self.audit())[f"{user}/{name}"]

    def audit(self) -> Sequence[AuditEvent]:
        return self.house.audit(self.watching.history, self.record.refused)

    def reach(self, instant: datetime) -> None:
        """Wait for an instant that something else waits for too."""
        left = (instant - datetime.now(UTC)).total_seconds()
        until(lambda: datetime.now(UTC) >= instant, max(0.0, left) + 1.0, f"{instant:%H:%M:%S}")

    def breaks(self, text: str) -> None:
        self.chronicle.say(Topic.PART, "story", text)

    def tell(self, sentence: str) -> None:
        self.chronicle.tell(sentence)

    def _says(self, user: str, text: str) -> None:
        self.chronicle.say(Topic.USER, user, text)

    def _warned(self, user: str, reply: Reply) -> None:
        for warning in reply.warnings:
            self._reads(user, "reads", warning)

    def _reads(self, user: str, how: str, text: str) -> None:
        self._says(user, f"{how}: {text}")
        self.chronicle.quote(f"{user} {how}: {text}")

    def _until(self, kind: str, key: str, wanted: Callable[[JsonObject], bool], what: str) -> JsonObject:
        def found() -> JsonObject | None:
            obj = self.watching.find(kind, key)
            return obj if obj is not None and wanted(obj) else None

        return until(found, DEADLINE_S, f"{kind} {key} {what}")
