"""What answers on which path. Reviews go past Starlette to plain ASGI callables; it carries the rest."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from starlette.types import ASGIApp, Receive, Scope, Send

from common.adapters.wire import PodWire
from common.adapters.wire.reservation import ReservationWire
from common.domain import texts
from common.probes import probes
from common.supervise import Health
from webhook.asgi import Bound, Decide, Endpoint, Observer, T
from webhook.claims import Committer
from webhook.grant import Granter, GrantSettings, MonotonicClock
from webhook.guard import Guard
from webhook.index import Index
from webhook.owners import Owners, WorkloadWire
from webhook.reservations import Stamp, Stamped, Validator
from webhook.review import Reader


@dataclass(frozen=True, slots=True)
class Parts:
    """What the endpoints are made of."""

    index: Index
    committer: Committer
    clock: MonotonicClock
    classes_synced: Callable[[], bool]
    synced: Callable[[], bool]
    health: Health
    observer: Observer
    leaving: Callable[[], bool] = lambda: False
    display: texts.Display = field(default_factory=texts.Display)
    grant: GrantSettings = field(default_factory=GrantSettings)
    at_once: int = 1024


class App:
    """Reviews by their exact path; everything else is left to `rest`."""

    def __init__(self, reviews: Mapping[str, ASGIApp], rest: ASGIApp) -> None:
        self._reviews = reviews
        self._rest = rest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._reviews.get(scope.get("path", ""), self._rest)(scope, receive, send)


def create_app(parts: Parts) -> App:
    """The application behind TLS."""
    bound = Bound(parts.at_once)

    def endpoint(name: str, type_: type[T], decide: Decide[T]) -> Endpoint[T]:
        return Endpoint(name, Reader(type_), decide, bound, parts.observer, parts.clock.monotonic, parts.leaving)

    guard = Guard(parts.index, parts.classes_synced)
    granter = Granter(parts.index, parts.committer, parts.clock, parts.synced, parts.display, parts.grant)
    validator = Validator(parts.index, parts.clock, parts.synced, parts.display, parts.grant.uncertainty)
    owners = Owners(
        parts.index, guard.refusal, parts.clock, parts.synced, parts.display, uncertainty=parts.grant.uncertainty
    )
    return App(
        {
            "/mutate/guard": endpoint("guard", PodWire, guard.decide),
            "/mutate/grant": endpoint("grant", PodWire, granter.decide),
            "/mutate/reservations": endpoint("stamp", Stamped, Stamp().decide),
            "/validate/reservations": endpoint("validate", ReservationWire, validator.decide),
            "/validate/owners": endpoint("owners", WorkloadWire, owners.decide),
        },
        probes(parts.health),
    )
