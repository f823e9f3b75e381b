"""Claims about the run, each judged on what the API server logged and sent; a claim without a case has failed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from common.domain import keys
from common.domain.reasons import Reason
from tests.controlplane.discovery import JsonObject
from tests.controlplane.product import NAMESPACE
from tests.demo import reading
from tests.demo.evidence import Evidence, Trail, milliseconds, trails

LATE_MS = 1000.0
"""What a busy laptop may take; `make bench` measures what the product promises."""
TAKEOVER_S = 6.0
TOLD_AFTER_MS = 7000.0
"""Condition and Event come after 5 s of holding."""
RECONCILER = f"system:serviceaccount:{NAMESPACE}:gpures-reconciler"
WEBHOOK = f"system:serviceaccount:{NAMESPACE}:gpures-webhook"


@dataclass(frozen=True)
class Verdict:
    """A claim, whether it held, and the figures."""

    claim: str
    holds: bool
    detail: str
    asked: bool = True
    """No: this cluster cannot show it, and the detail says why."""


def prove(evidence: Evidence) -> Sequence[Verdict]:
    """Judge every claim."""
    return [claim(evidence) for claim in CLAIMS]


def _judge(claim: str, cases: int, faults: Iterable[str], figures: str = "") -> Verdict:
    found = list(faults)
    if not cases:
        return Verdict(claim, holds=False, detail="no case was seen")
    detail = "; ".join(found[:3]) if found else ", ".join(part for part in (figures, f"n={cases}") if part)
    return Verdict(claim, not found, detail)


def _spread(values: Sequence[float]) -> str:
    if not values:
        return ""
    low, high = min(values), max(values)
    return f"{low:.0f}–{high:.0f} ms" if round(low) != round(high) else f"{high:.0f} ms"


def fast(evidence: Evidence) -> Verdict:
    pods = [trail for trail in trails(evidence.audit).values() if trail.let_in_at_create]
    faults = [f"{trail.key}: {event}" for trail in pods for event in trail.before_binding()]
    faults += [f"{trail.key} was never bound" for trail in pods if trail.binding is None]
    return _judge("let in at CREATE: no write to the pod between CREATE and Binding", len(pods), faults)


def one_write(evidence: Evidence) -> Verdict:
    pods = _opened(evidence)
    faults = []
    for trail in pods:
        writes = [event for event in trail.before_binding() if event.subresource == ""]
        if len(writes) != 1 or not reading.admitted(writes[0].response or {"metadata": {}, "spec": {}}):
            faults.append(f"{trail.key}: {len(writes)} writes")
    return _judge("let in later: by one single write to the pod", len(pods), faults)


def on_time(evidence: Evidence) -> Verdict:
    starts, claimed = _starts(evidence), _claimed(evidence)
    asked: list[float] = []
    late: list[float] = []
    faults = []
    for trail in _opened(evidence):
        opening = trail.opening
        start = starts.get(_reservation_of(trail, opening.response or {})) if opening else None
        if opening is None or start is None or trail.created.completed >= start:
            continue
        late.append(milliseconds(start, opening.completed))
        token = reading.notes(opening.response or {"metadata": {}}).get(keys.CLAIM, "")
        asked += [milliseconds(start, claimed[token])] if token in claimed else []
        if opening.received < start:
            faults.append(f"{trail.key} was released {-milliseconds(start, opening.received):.0f} ms too early")
        elif late[-1] > LATE_MS:
            faults.append(f"{trail.key} was released {late[-1]:.0f} ms late")
    figures = f"claimed {_spread(asked)}, released {_spread(late)} after it"
    return _judge("released when the window opened, never before", len(late), faults, figures)


def budget(evidence: Evidence) -> Verdict:
    faults = []
    for change in evidence.reservations:
        found = change.object
        claimed, granted = sum(reading.claims(found).values()), reading.granted_units(found)
        if reading.phase(found) in reading.PROMISED and claimed > granted:
            faults.append(f"{reading.key(found)}: {claimed} of {granted}")
    claim = "never more units claimed than granted, at any version"
    most = max((sum(reading.claims(change.object).values()) for change in evidence.reservations), default=0)
    return _judge(claim, len(evidence.reservations), faults, f"at most {most} claimed")


def placed(evidence: Evidence) -> Verdict:
    classes = {reading.key(change.object): reading.gpu_class(change.object) for change in evidence.nodes}
    claimed = {
        (reading.key(change.object), token): units
        for change in evidence.reservations
        for token, units in reading.claims(change.object).items()
    }
    pods = {reading.key(change.object): change.object for change in evidence.pods if reading.node(change.object)}
    faults = []
    for key, pod in pods.items():
        found = reading.notes(pod)
        name = f"{pod['metadata']['namespace']}/{found.get(keys.BOOKING_REFERENCE, '')}"
        if claimed.get((name, found.get(keys.CLAIM, ""))) != reading.units(pod):
            faults.append(f"{key} has no claim for its units")
        if classes.get(reading.node(pod)) != reading.gpu_class(pod):
            faults.append(f"{key} runs on {reading.node(pod)}")
    return _judge("placed pods: each with its claim, on a node of its class", len(pods), faults)


def reasons(evidence: Evidence) -> Verdict:
    known = {str(reason) for reason in Reason}
    held = [change.object for change in evidence.pods if reading.gated(change.object)]
    faults = [f"{reading.key(pod)}: {reading.held(pod)[0]!r}" for pod in held if reading.held(pod)[0] not in known]
    pods = {reading.key(pod) for pod in held}
    seen = sorted({reading.held(pod)[0] for pod in held})
    return _judge("held pods: all with a reason, at every version", len(pods), faults, f"{len(seen)} reasons")


def told(evidence: Evidence) -> Verdict:
    events = [_about(change.object) for change in evidence.events if change.type == "ADDED"]
    conditions = {
        reading.key(change.object)
        for change in evidence.pods
        for entry in change.object["status"].get("conditions") or ()
        if entry["type"] == keys.HELD_CONDITION
    }
    long = [trail for trail in _opened(evidence) if _held_ms(trail) > TOLD_AFTER_MS]
    faults = [f"{trail.key} has no condition" for trail in long if trail.key not in conditions]
    for trail in long:
        count = events.count((trail.key, reading.held(trail.stored)[0]))
        if count != 1:
            faults.append(f"{trail.key} has {count} Events")
    return _judge("held for long: one condition and one Event say why", len(long), faults)


def next_in(evidence: Evidence) -> Verdict:
    found = trails(evidence.audit)
    took, faults = [], []
    for finished, waiting in evidence.record.finished_then:
        done = found[finished].done() if finished in found else None
        opening = found[waiting].opening if waiting in found else None
        if done is None or opening is None:
            faults.append(f"{waiting} was not let in")
            continue
        took.append(milliseconds(done.completed, opening.completed))
        if not 0 <= took[-1] <= LATE_MS:
            faults.append(f"{waiting} was let in {took[-1]:.0f} ms after {finished} ended")
    pairs = len(evidence.record.finished_then)
    return _judge("full: a finished pod lets the next in", pairs, faults, f"{_spread(took)} later")


def denied(evidence: Evidence) -> Verdict:
    key, warnings = evidence.record.denied, evidence.record.slot_warnings
    answers = {
        reading.message(change.object)
        for change in evidence.reservations
        if reading.key(change.object) == key and reading.phase(change.object) == "Denied"
    }
    faults = [f"no first slot in {text!r}" for text in answers if "first slot" not in text]
    if warnings is None or warnings:
        faults.append(f"the slot does not fit by a dry run: {warnings}")
    claim = "booking denied: with the first slot, which a dry run confirms"
    return _judge(claim, len(answers), faults)


def typo(evidence: Evidence) -> Verdict:
    warnings = evidence.record.typo
    faults = [] if any('did you mean "h100"' in text for text in warnings) else [f"it said {warnings}"]
    return _judge("typo in the class: answered with the likely name", len(warnings), faults)


def outage(evidence: Evidence) -> Verdict:
    claim = "webhooks dead: pods stored as Undecided, and let in"
    if evidence.record.outage is None:
        return _judge(claim, 0, ())
    began, ended = evidence.record.outage
    pods = [t for t in trails(evidence.audit).values() if began <= t.created.received <= ended]
    faults = [f"{trail.key}: {reading.held(trail.stored)}" for trail in pods if _reason(trail) != Reason.UNDECIDED]
    took = []
    for trail in pods:
        opening = trail.opening
        if opening is None or opening.completed > ended or opening.by != RECONCILER:
            faults.append(f"{trail.key} was not let in by the reconciler meanwhile")
        else:
            took.append(milliseconds(trail.created.completed, opening.completed))
    return _judge(claim, len(pods), faults, f"{_spread(took)} after CREATE")


def forged(evidence: Evidence) -> Verdict:
    stored = {reading.key(change.object) for change in evidence.pods} | set(trails(evidence.audit))
    attempts = evidence.record.forged
    asked = {f"{event.namespace}/{event.name}" for event in evidence.audit if event.verb == "create"}
    faults = [f"{key} was stored" for key in attempts if key in stored]
    faults += [f"{key} was never asked for" for key in attempts if key not in asked]
    return _judge("forgeries: refused, with the webhooks dead too", len(attempts), faults)


def failover(evidence: Evidence) -> Verdict:
    record = evidence.record
    claim = "leader killed: the standby released the next window"
    if record.killed_wall is None:
        return _judge(claim, 0, ())
    after = [change for change in evidence.leases if change.at > record.killed_at]
    heirs = [change for change in after if reading.holder(change.object) not in ("", record.killed_leader)]
    if not heirs:
        return Verdict(claim, holds=False, detail=f"nobody followed {record.killed_leader}")
    took = heirs[0].at - record.killed_at
    taken_over = {trail.key for trail in _opened(evidence) if _opened_after(trail, record.killed_wall)}
    faults = [] if taken_over else ["no pod was released afterwards"]
    if took > TAKEOVER_S:
        faults.append(f"it took {took:.1f} s")
    figures = f"{reading.holder(heirs[0].object)} led after {took:.1f} s"
    return _judge(claim, 1, faults, f"{figures}, {len(taken_over)} pods")


def rights(evidence: Evidence) -> Verdict:
    claim = "the webhooks wrote claims only, the reconciler opened the gates"
    if evidence.unproved:
        return Verdict(claim, holds=True, detail=evidence.unproved, asked=False)
    writes = [event for event in evidence.audit if event.stored and event.by == WEBHOOK]
    faults = [str(event) for event in writes if (event.resource, event.subresource) != ("gpureservations", "status")]
    openings = [trail.opening for trail in _opened(evidence)]
    faults += [str(event) for event in openings if event is not None and event.by != RECONCILER]
    return _judge(claim, len(writes), faults)


def _opened(evidence: Evidence) -> Sequence[Trail]:
    return [trail for trail in trails(evidence.audit).values() if trail.opening is not None]


def _opened_after(trail: Trail, instant: datetime) -> bool:
    return trail.opening is not None and trail.opening.received > instant


def _held_ms(trail: Trail) -> float:
    opening = trail.opening
    return milliseconds(trail.created.completed, opening.completed) if opening else 0.0


def _reason(trail: Trail) -> str:
    return reading.held(trail.stored)[0]


def _reservation_of(trail: Trail, opened: JsonObject) -> str:
    return f"{trail.created.namespace}/{reading.notes(opened).get(keys.BOOKING_REFERENCE, '')}"


def _claimed(evidence: Evidence) -> Mapping[str, datetime]:
    """When the claim of each token was asked for."""
    found: dict[str, datetime] = {}
    for event in evidence.audit:
        if event.resource == "gpureservations" and event.stored and event.response:
            for token in reading.claims(event.response):
                found[token] = min(found.get(token, event.received), event.received)
    return found


def _starts(evidence: Evidence) -> Mapping[str, datetime]:
    """Start of the promise, by reservation."""
    windows = ((reading.key(change.object), reading.granted_window(change.object)) for change in evidence.reservations)
    return {key: window[0] for key, window in windows if window is not None}


def _about(event: JsonObject) -> tuple[str, str]:
    involved = event["involvedObject"]
    return f"{involved.get('namespace', '')}/{involved['name']}", str(event["reason"])


CLAIMS: tuple[Callable[[Evidence], Verdict], ...] = (
    fast,
    one_write,
    on_time,
    budget,
    placed,
    reasons,
    told,
    next_in,
    denied,
    typo,
    outage,
    forged,
    failover,
    rights,
)
