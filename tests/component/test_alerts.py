"""Each alert rule, judged by Prometheus' own engine: it fires on what it is for, alone, and is quiet otherwise."""

from __future__ import annotations

import pytest
import yaml

from tests.chart import helm, reference
from tests.chart.promql import firing
from tests.component.alert_examples import FIRES, HEALTHY, QUIET, Example
from tests.controlplane.discovery import JsonObject

RULES: list[JsonObject] = [
    rule
    for group in yaml.safe_load((helm.CHART / "files" / "alerts.yaml").read_text())["groups"]
    for rule in group["rules"]
]
LABELS = {name: family for family in reference.families() for name in reference.sample_names(family)}
SCRAPED = {"__name__", "namespace", "component", "pod"}


def test_every_alert_has_examples_of_both_kinds() -> None:
    alerts = {rule["alert"] for rule in RULES}
    assert {example.alert for example in FIRES} == alerts
    assert {example.alert for example in QUIET} == alerts


def test_examples_are_made_of_series_that_our_processes_have() -> None:
    keys = [dict(key) for example in (*FIRES, *QUIET) for key in example.changes] + [dict(key) for key in HEALTHY]
    assert [key for key in keys if key["__name__"] != "up" and key["__name__"] not in LABELS] == []
    for key in keys:
        own = reference.metric_labels(LABELS[key["__name__"]]) if key["__name__"] != "up" else ()
        assert set(key) - SCRAPED - {"le"} == set(own), key


def test_a_healthy_installation_alerts_nobody() -> None:
    assert firing(RULES, HEALTHY) == {}


@pytest.mark.parametrize("example", FIRES, ids=str)
def test_an_alert_fires_alone_on_what_it_is_for_and_names_it(example: Example) -> None:
    told = firing(RULES, {**HEALTHY, **example.changes})
    assert list(told) == [example.alert]
    (text,) = told[example.alert]
    assert example.says in text
    assert "<no value>" not in text
    assert "%!" not in text


@pytest.mark.parametrize("example", QUIET, ids=str)
def test_an_alert_is_quiet_on_what_passes_by_itself(example: Example) -> None:
    assert firing(RULES, {**HEALTHY, **example.changes}) == {}
