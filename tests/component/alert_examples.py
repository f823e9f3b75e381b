"""What each alert is for, and what it must stay quiet on: changes to what a healthy installation tells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tests.chart.promql import SPAN_MIN, Series, Value, series

PODS: Final = {
    "webhook-0": "webhook",
    "webhook-1": "webhook",
    "reconciler-0": "reconciler",
    "reconciler-1": "reconciler",
}
BUCKETS: Final = ("1.0", "5.0", "10.0", "+Inf")
GONE: Final = 6.0
"""Prometheus goes on with a last sample for five minutes."""


def of(pod: str, name: str, **labels: str) -> Series:
    """As it is scraped from a pod of ours; `reconciler-0` leads."""
    return series(name, namespace="gpures-system", component=PODS[pod], pod=pod, **labels)


def always(value: float) -> Value:
    return lambda _: value


def since(minutes: float, value: float | None, before: float | None = 0.0) -> Value:
    return lambda at: value if at >= -minutes else before


def rising(a_minute: float = 60.0) -> Value:
    return lambda at: a_minute * (at + SPAN_MIN)


def until_ago(minutes: float, a_minute: float = 60.0) -> Value:
    """Rose, and has stood still for so long."""
    return lambda at: a_minute * (min(at, -minutes) + SPAN_MIN)


def risen(minutes: float, by: float) -> Value:
    """Stood at 0, and rose by so much over the last minutes."""
    return lambda at: max(0.0, by * (1 + at / minutes))


def _healthy() -> Iterator[tuple[Series, Value]]:
    for pod, component in PODS.items():
        yield of(pod, "up"), always(1)
        yield of(pod, "gpures_leader"), always(float(pod == "reconciler-0"))
        yield of(pod, "gpures_breaker_open"), always(0)
        yield of(pod, "gpures_clock_uncertainty_seconds"), always(0.05)
        for kind in ("pods", "gpureservations"):
            yield of(pod, "gpures_reflector_age_seconds", kind=kind), always(45)
            yield of(pod, "gpures_reflector_malformed_objects_total", kind=kind), always(0)
            yield of(pod, "gpures_reflector_handler_errors_total", kind=kind), always(0)
        yield of(pod, "gpures_orphan_claims_dropped_total"), always(3)
        yield of(pod, "gpures_certificate_rounds_failed_total"), always(2)
        if component == "webhook":
            yield of(pod, "gpures_certificate_days_left", certificate="serving"), always(60)
            for bucket in BUCKETS:
                yield of(pod, "gpures_webhook_review_seconds_bucket", entry="grant", le=bucket), rising()
    leader = "reconciler-0"
    for bucket in BUCKETS:
        yield of(leader, "gpures_release_lateness_seconds_bucket", le=bucket), rising()
    for outcome in ("stored", "Conflict"):
        yield of(leader, "gpures_writes_total", action="open", outcome=outcome), rising()
    yield of(leader, "gpures_held_pods", gpu_class="h100", reason="NoReservation"), always(5)
    yield of(leader, "gpures_held_pods", gpu_class="h100", reason="Undecided"), always(0)
    for count in ("schedulable", "reserved"):
        yield of(leader, "gpures_class_units", gpu_class="h100", count=count), always(8)
    for kind in ("mutating", "validating"):
        yield of(leader, "gpures_webhook_configurations_missing", kind=kind), always(0)


HEALTHY: Final[Mapping[Series, Value]] = dict(_healthy())


@dataclass(frozen=True)
class Example:
    alert: str
    what: str
    changes: Mapping[Series, Value]
    says: str = ""

    def __str__(self) -> str:
        return f"{self.alert}: {self.what}"


def _webhooks(name: str, value: Value, **labels: str) -> dict[Series, Value]:
    return {of(pod, name, **labels): value for pod in PODS if pod.startswith("webhook")}


def _leader(name: str, value: Value, **labels: str) -> dict[Series, Value]:
    return {of("reconciler-0", name, **labels): value}


def _gone(component: str) -> dict[Series, Value]:
    return {key: since(GONE, None, 1.0) for key in HEALTHY if ("component", component) in key}


LATE, REVIEW = "gpures_release_lateness_seconds_bucket", "gpures_webhook_review_seconds_bucket"
AGE, MISSING = "gpures_reflector_age_seconds", "gpures_webhook_configurations_missing"
ORPHANS, ROUNDS = "gpures_orphan_claims_dropped_total", "gpures_certificate_rounds_failed_total"
MALFORMED, ERRORS = "gpures_reflector_malformed_objects_total", "gpures_reflector_handler_errors_total"
GRANT = {"entry": "grant"}
SLOW: Final = _webhooks(REVIEW, until_ago(25), le="1.0", **GRANT)
REFUSED = {"action": "open", "outcome": "Refused"}
UNDECIDED = {"gpu_class": "h100", "reason": "Undecided"}
SCHEDULABLE = {"gpu_class": "h100", "count": "schedulable"}
STANDBY = of("reconciler-1", "gpures_leader")

FIRES: Final = (
    Example("GpuresWebhookDown", "no replica answers", _webhooks("up", since(3, 0, 1))),
    Example("GpuresWebhookDown", "there is no replica", _gone("webhook") | _webhooks("up", since(8, None, 1))),
    Example("GpuresNoLeader", "nobody leads", _leader("gpures_leader", since(2, 0, 1))),
    Example("GpuresNoLeader", "there is no reconciler", _gone("reconciler") | {STANDBY: since(8, None)}),
    Example("GpuresManyLeaders", "two lead", {STANDBY: since(1, 1)}),
    Example(
        "GpuresReleasesLate", "over 5 s", {of("reconciler-0", LATE, le=le): until_ago(25) for le in ("1.0", "5.0")}
    ),
    Example("GpuresReviewsSlow", "over 1 s", SLOW | _webhooks(REVIEW, until_ago(25), le="5.0", **GRANT), "takes 9."),
    Example("GpuresBreakerOpen", "of one webhook", {of("webhook-1", "gpures_breaker_open"): since(6, 1)}),
    Example("GpuresCacheStale", "200 s", {of("reconciler-1", AGE, kind="pods"): since(3, 200)}, "reconciler-1"),
    Example("GpuresCacheStale", "never", {of("webhook-0", AGE, kind="pods"): since(3, float("inf"))}, "its pods"),
    Example(
        "GpuresClockUncertain", "2 s", {of("webhook-0", "gpures_clock_uncertainty_seconds"): since(6, 2)}, "to 2s only"
    ),
    Example("GpuresWritesFail", "one a second is refused", _leader("gpures_writes_total", rising(), **REFUSED), "open"),
    Example("GpuresPodsUndecided", "for minutes", _leader("gpures_held_pods", since(6, 3), **UNDECIDED), "3 pods"),
    Example(
        "GpuresCapacityShort",
        "two nodes are gone",
        _leader("gpures_class_units", since(11, 6, 8), **SCHEDULABLE),
        "h100 has 6",
    ),
    Example("GpuresClaimsOrphaned", "30 in ten minutes", _leader(ORPHANS, risen(10, 30))),
    Example("GpuresObjectsUnreadable", "a single one", _leader(MALFORMED, since(30, 1), kind="pods"), "Some pods"),
    Example("GpuresFaultsOfOurs", "a single one", _leader(ERRORS, since(10, 1), kind="pods"), "on pods"),
    Example(
        "GpuresCertificateEnds",
        "in ten days",
        {of("webhook-1", "gpures_certificate_days_left", certificate="serving"): since(11, 10, 60)},
        "webhook-1 serves a certificate that ends in 10 days",
    ),
    Example("GpuresCertificateRotationFails", "every minute", _leader(ROUNDS, risen(20, 20))),
    Example("GpuresWebhookUnregistered", "one is gone", _leader(MISSING, since(2, 1), kind="mutating"), "mutating"),
)
QUIET: Final = (
    Example("GpuresWebhookDown", "one of two is down", {of("webhook-0", "up"): since(60, 0, 1)}),
    Example("GpuresWebhookDown", "for a minute only", _webhooks("up", since(1, 0, 1))),
    Example("GpuresNoLeader", "the lease changes hands", _leader("gpures_leader", since(0.5, 0, 1))),
    Example("GpuresManyLeaders", "seen once, between two scrapes", {STANDBY: since(0, 1)}),
    Example("GpuresReleasesLate", "by less than 5 s", {of("reconciler-0", LATE, le="1.0"): until_ago(25)}),
    Example(
        "GpuresReleasesLate",
        "for some minutes",
        {of("reconciler-0", LATE, le=le): until_ago(8) for le in ("1.0", "5.0")},
    ),
    Example("GpuresReviewsSlow", "for five minutes", _webhooks(REVIEW, until_ago(5), le="1.0", **GRANT)),
    Example("GpuresBreakerOpen", "for four minutes", {of("webhook-1", "gpures_breaker_open"): since(4, 1)}),
    Example("GpuresCacheStale", "for a minute", {of("reconciler-1", AGE, kind="pods"): since(1, 300)}),
    Example("GpuresCacheStale", "bookmarks are late", {of("reconciler-1", AGE, kind="pods"): since(30, 150)}),
    Example(
        "GpuresClockUncertain", "after a start", {of("webhook-0", "gpures_clock_uncertainty_seconds"): since(3, 2)}
    ),
    Example("GpuresWritesFail", "one in ten seconds", _leader("gpures_writes_total", rising(6), **REFUSED)),
    Example("GpuresWritesFail", "one a second, soon over", _leader("gpures_writes_total", risen(8, 480), **REFUSED)),
    Example("GpuresPodsUndecided", "while a webhook rolls", _leader("gpures_held_pods", since(4, 3), **UNDECIDED)),
    Example("GpuresCapacityShort", "a node reboots", _leader("gpures_class_units", since(9, 6, 8), **SCHEDULABLE)),
    Example("GpuresClaimsOrphaned", "ten in ten minutes", _leader(ORPHANS, risen(10, 10))),
    Example("GpuresObjectsUnreadable", "two hours ago", _leader(MALFORMED, always(1), kind="pods")),
    Example("GpuresFaultsOfOurs", "an hour ago", _leader(ERRORS, since(60, 1), kind="pods")),
    Example(
        "GpuresCertificateEnds",
        "after its renewal",
        {of("webhook-1", "gpures_certificate_days_left", certificate="serving"): since(5, 89, 10)},
    ),
    Example(
        "GpuresCertificateEnds",
        "soon taken over",
        {of("webhook-1", "gpures_certificate_days_left", certificate="serving"): since(5, 10, 60)},
    ),
    Example("GpuresCertificateRotationFails", "eight times", _leader(ROUNDS, risen(20, 8))),
    Example("GpuresWebhookUnregistered", "an upgrade by hand", _leader(MISSING, since(0.5, 1), kind="mutating")),
)
