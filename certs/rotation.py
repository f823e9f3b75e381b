"""What to do next about the certificates. Pure: facts and an instant in, steps out; nothing is read or written here.

The order that leaves no gap: a new CA is trusted (remembered, then injected everywhere) before a leaf of it is stored,
and an old CA is trusted until no replica can serve a leaf of it any more. What needs time to arrive (a bundle at every
API server, a Secret in every pod) gets `propagation` by the monotonic clock, for a clock that is set makes nothing
arrive. What ends by the calendar is judged by the API server's clock, for it is the API server that verifies.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from certs.validity import Validity
from common.domain.time import Instant, after

MOST_TRUSTED: Final = 5
"""CAs in a bundle; more come together only where somebody deletes Secrets again and again."""


@dataclass(frozen=True, slots=True)
class Settings:
    name: str
    """By which the API server calls the webhook."""
    propagation: timedelta
    overlap: timedelta
    """How long an old CA is trusted after the leaf of the new one was stored; never less than `propagation`."""


@dataclass(frozen=True, slots=True)
class Ca:
    id: str
    valid: Validity


@dataclass(frozen=True, slots=True)
class Leaf:
    issuer: str
    """The id of the known CA that signed it; empty where none did."""
    names: frozenset[str]
    valid: Validity


@dataclass(frozen=True, slots=True)
class Bundle:
    """All that is known; what is missing, unreadable or no pair is None or empty."""

    ca: Ca | None
    """The one that we can sign with."""
    leaf: Leaf | None
    remembered: tuple[Ca, ...] | None
    """The bundle stored beside the leaf; None where that Secret is not there."""
    injected: tuple[tuple[Ca, ...], ...]
    """The bundle in each entry of the webhook configurations."""
    injected_for: timedelta
    """How long `injected` has been seen as it is; durations start again with each leader."""
    leaf_for: timedelta


@dataclass(frozen=True, slots=True)
class IssueCa:
    """Make a new CA and store it in the place of the old one, whose key is gone with that."""

    why: str


@dataclass(frozen=True, slots=True)
class Remember:
    """Store the bundle beside the leaf."""

    cas: tuple[Ca, ...]


@dataclass(frozen=True, slots=True)
class Inject:
    """Put the bundle into every entry of the webhook configurations."""

    cas: tuple[Ca, ...]


@dataclass(frozen=True, slots=True)
class IssueLeaf:
    """Make a leaf of our CA and store it with the bundle."""

    cas: tuple[Ca, ...]
    why: str


Step = IssueCa | Remember | Inject | IssueLeaf


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in their order. After them look again; without any, at `again` at the latest."""

    steps: tuple[Step, ...]
    again: Instant


def plan(bundle: Bundle, now: Instant, settings: Settings) -> Plan:
    """Decide by the state alone, so that a rotation cut anywhere is taken up by whoever looks next."""
    ca = bundle.ca
    why = _ca_wanted(bundle, now)
    if ca is None or why:
        return Plan((IssueCa(why),), now)
    cas = _trusted(bundle, ca, now, settings)
    steps: list[Step] = []
    if bundle.remembered is not None and bundle.remembered != cas:
        steps.append(Remember(cas))
    if any(entry != cas for entry in bundle.injected):
        steps.append(Inject(cas))
    why = _leaf_wanted(bundle, ca, now, settings)
    if why and not steps and _may_be_served(bundle, ca, now, settings):
        steps.append(IssueLeaf(cas, why))
    if steps:
        return Plan(tuple(steps), now)
    return Plan((), min(_instants(bundle, ca, now, settings, waiting=bool(why))))


def serves(bundle: Bundle, now: Instant, settings: Settings) -> bool:
    """Whether what is stored can be served: it verifies against what is injected, everywhere."""
    verifying = [cas for cas in bundle.injected if _verifies(bundle.leaf, cas, now)]
    return (
        bundle.leaf is not None
        and settings.name in bundle.leaf.names
        and bundle.leaf.valid.holds(now)
        and len(verifying) == len(bundle.injected)
    )


def _ca_wanted(bundle: Bundle, now: Instant) -> str:
    """Why a new CA is needed; empty when it is not."""
    ca, leaf = bundle.ca, bundle.leaf
    if ca is None:
        return "there is none that can sign"
    if not ca.valid.holds(now):
        return "it has ended" if now > ca.valid.end else "it has not begun: the clock was set back"
    # One after the other: a CA that signed nothing yet signs first, or a slow leader would start over and over.
    return "it is due" if now >= ca.valid.renewal and leaf is not None and leaf.issuer == ca.id else ""


def _leaf_wanted(bundle: Bundle, ca: Ca, now: Instant, settings: Settings) -> str:
    leaf = bundle.leaf
    if leaf is None:
        return "there is none"
    checks = (
        (now > leaf.valid.end, "it has ended"),
        (now < leaf.valid.start, "it has not begun: the clock was set back"),
        (settings.name not in leaf.names, "it is for another name"),
        (leaf.issuer != ca.id, "it is of another CA"),
        (now >= leaf.valid.renewal, "it is due"),
    )
    return next((why for failed, why in checks if failed), "")


def _trusted(bundle: Bundle, ca: Ca, now: Instant, settings: Settings) -> tuple[Ca, ...]:
    """The bundle as it should be: our CA first, and whatever a replica may still serve a leaf of."""
    if _old_may_go(bundle, ca, now, settings):
        return (ca,)
    others = {known.id: known for known in _known(bundle) if known.id != ca.id}
    issuer = bundle.leaf.issuer if bundle.leaf else ""
    ranked = sorted(others.values(), key=lambda known: (known.id == issuer, known.valid.start, known.id), reverse=True)
    return (ca, *ranked[: MOST_TRUSTED - 1])


def _known(bundle: Bundle) -> Iterable[Ca]:
    """What is stored and what is injected remember for each other."""
    return (*(bundle.remembered or ()), *(ca for entry in bundle.injected for ca in entry))


def _old_may_go(bundle: Bundle, ca: Ca, now: Instant, settings: Settings) -> bool:
    leaf = bundle.leaf
    if leaf is None or leaf.issuer != ca.id or not leaf.valid.holds(now):
        return False
    return bundle.leaf_for >= settings.propagation and now >= after(leaf.valid.issued, settings.overlap)


def _may_be_served(bundle: Bundle, ca: Ca, now: Instant, settings: Settings) -> bool:
    """Whether a leaf of our CA may be stored, which is to say served from then on.

    Our CA is injected everywhere (no step of injecting is left) and has had its time to be seen, or nothing that a
    replica could be serving verifies anyway, so that waiting would only prolong an outage.
    """
    if bundle.injected_for >= settings.propagation:
        return True
    others = [known for known in _known(bundle) if known.id != ca.id]
    return not _verifies(bundle.leaf, (ca,), now) and not any(known.valid.holds(now) for known in others)


def _verifies(leaf: Leaf | None, cas: Iterable[Ca], now: Instant) -> bool:
    if leaf is None or not leaf.valid.holds(now):
        return False
    return any(ca.id == leaf.issuer and ca.valid.holds(now) for ca in cas)


def _instants(bundle: Bundle, ca: Ca, now: Instant, settings: Settings, *, waiting: bool) -> Iterable[Instant]:
    """When it is worth looking again, apart from anything that others do."""
    if waiting:
        yield now + (settings.propagation - bundle.injected_for)
    elif bundle.leaf is not None:
        yield ca.valid.renewal
        yield bundle.leaf.valid.renewal
        if len(bundle.remembered or ()) > 1:
            yield max(now + (settings.propagation - bundle.leaf_for), after(bundle.leaf.valid.issued, settings.overlap))
