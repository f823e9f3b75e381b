"""What the webhook tells of its answers: metrics, and a log line for a fault of ours."""

from functools import cache

import structlog
from prometheus_client import Counter, Histogram

from common.adapters import metrics

_log = structlog.get_logger(__name__)


class Told:
    """Implements `asgi.Observer`."""

    def answered(self, entry: str, verdict: str, reason: str, seconds: float) -> None:
        _reviews(entry, verdict, reason).inc()
        _seconds(entry).observe(seconds)

    def failed(self, entry: str, error: Exception) -> None:
        _log.error("review.failed", entry=entry, exc_info=error)


# Looking up a labelled metric costs more than counting on it; every label here is from a closed list.
@cache
def _reviews(entry: str, verdict: str, reason: str) -> Counter:
    return metrics.REVIEWS.labels(entry, verdict, reason)


@cache
def _seconds(entry: str) -> Histogram:
    return metrics.REVIEW_SECONDS.labels(entry)
