"""Prometheus' own engine on made-up series: what the alert rules say now, of ninety minutes that led here."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence

from tests.controlplane.discovery import JsonObject
from tests.controlplane.programs import ensure_programs

SPAN_MIN, STEP_S = 90, 30
DEADLINE_S = 60.0
UNITS_S = {"s": 1, "m": 60, "h": 3600}

Series = tuple[tuple[str, str], ...]
"""Labels, the name among them, sorted."""
Value = Callable[[float], float | None]
"""What a series was so many minutes ago, written as a negative number; None: there was no sample."""


def series(name: str, **labels: str) -> Series:
    return tuple(sorted({"__name__": name, **labels}.items()))


def firing(rules: Sequence[JsonObject], values: Mapping[Series, Value]) -> Mapping[str, Sequence[str]]:
    """Descriptions of each alert that fires at the end: its expression has held at every step of its `for`."""
    now = SPAN_MIN * 60
    queries = [
        {
            "expr": rule["expr"],
            "from": now - _seconds(rule.get("for", "0s")),
            "to": now,
            "step": STEP_S,
            "text": rule["annotations"]["description"],
        }
        for rule in rules
    ]
    answers = _asked({"series": [_sampled(*each) for each in values.items()], "queries": queries})
    told = {}
    for rule, query, answer in zip(rules, queries, answers, strict=True):
        steps = int((query["to"] - query["from"]) / STEP_S) + 1
        told[rule["alert"]] = [found["text"] for found in answer if len(found["samples"]) == steps]
    return {alert: texts for alert, texts in told.items() if texts}


def _asked(question: JsonObject) -> Sequence[Sequence[JsonObject]]:
    done = subprocess.run(
        [str(ensure_programs().promql)],
        input=json.dumps(question),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    answers: Sequence[Sequence[JsonObject]] = json.loads(done.stdout)
    return answers


def _sampled(labels: Series, value: Value) -> JsonObject:
    found = [(at, value(at / 60 - SPAN_MIN)) for at in range(0, SPAN_MIN * 60 + 1, STEP_S)]
    return {"labels": dict(labels), "samples": [[at, str(each)] for at, each in found if each is not None]}


def _seconds(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([smh])", text).groups()  # type: ignore[union-attr]
    return int(number) * UNITS_S[unit]
