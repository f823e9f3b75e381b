"""Conventions that every metric keeps."""

from prometheus_client import REGISTRY, Counter, Gauge, Histogram
from prometheus_client.metrics import MetricWrapperBase

from common.adapters import metrics

ALL = {name: metric for name, metric in vars(metrics).items() if isinstance(metric, MetricWrapperBase)}
TENANT = {"namespace", "pod", "reservation", "name", "user", "uid", "token", "owner"}


def test_names_help_and_labels() -> None:
    assert len(ALL) > 20
    for name, metric in ALL.items():
        (described,) = metric.describe()
        assert described.name.startswith("gpures_"), name
        assert described.documentation.endswith("."), name
        assert not TENANT & set(metric._labelnames), f"{name} would show something of a tenant"  # noqa: SLF001
        if isinstance(metric, Histogram):
            assert described.name.endswith(("_seconds", "_patch")), name
        assert isinstance(metric, Counter | Gauge | Histogram)


def test_all_are_exposed() -> None:
    exposed = {metric.name for metric in REGISTRY.collect()}
    assert {described.name for metric in ALL.values() for described in metric.describe()} <= exposed
