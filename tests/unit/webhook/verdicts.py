"""What the second column of the tables in docs/reference/webhook.md means for the stored pod."""

from collections.abc import Callable
from typing import Any

from common.domain.time import format_instant
from tests.support.builders import at
from tests.unit.webhook.scene import GATE, TOLERATION, after, annotations, gates, is_let_in
from webhook.review import Decision


def let_in(pod: dict[str, Any], decision: Decision) -> None:
    stored = after(pod, decision)
    assert is_let_in(stored)
    notes = annotations(stored)
    assert notes["galends/booking-reference"] == stored["metadata"]["labels"]["gpures.dev/reservation"] == "sprint"
    assert notes["gpures.dev/claim"].split("-")[1] == "1"
    assert notes["galends/guaranteed-until"] == format_instant(at(13))
    assert "gpures.dev/held" not in notes
    assert "gpures.dev/held-until" not in notes
    kept = {k: v for k, v in annotations(pod).items() if not k.startswith(("gpures.dev/held", "galends/"))}
    assert kept.items() <= notes.items()


def held(pod: dict[str, Any], decision: Decision) -> None:
    stored = after(pod, decision)
    assert gates(stored).count(GATE["name"]) == 1
    assert TOLERATION not in stored["spec"].get("tolerations", [])
    notes = annotations(stored)
    assert not any(key.startswith("galends/") for key in notes)
    assert "gpures.dev/reservation" not in stored["metadata"]["labels"]
    assert decision.response.warnings[0].startswith("held: ")


def as_it_came(pod: dict[str, Any], decision: Decision) -> None:
    assert decision.response.allowed
    assert decision.response.patch == b""
    assert decision.response.patch_type == ""
    assert after(pod, decision) == pod


def goes_on(pod: dict[str, Any], decision: Decision) -> None:
    stored = after(pod, decision)
    assert decision.response.allowed
    assert gates(stored) == []
    assert "gpures.dev/held" not in annotations(stored)
    assert TOLERATION not in stored["spec"].get("tolerations", [])


def refused(_pod: dict[str, Any], decision: Decision) -> None:
    assert not decision.response.allowed
    assert decision.response.status is not None
    assert decision.response.status.code == 403
    assert len(decision.response.status.message) > 20


VERDICTS: dict[str, Callable[[dict[str, Any], Decision], None]] = {
    "let in": let_in,
    "held": held,
    "as it came": as_it_came,
    "goes on": goes_on,
    "refused": refused,
}
