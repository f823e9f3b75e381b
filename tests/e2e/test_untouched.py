"""Installing changes nothing: without a GPUClass every pod is stored as before, to the byte."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pytest

from tests.controlplane.audit import AuditEvent
from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.fixtures import on_kind
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e import reading
from tests.e2e.stage import CLASSES, DEADLINE_S
from tests.e2e.untouched import NAMESPACE, name_of, pods, store_all
from tests.kind.installation import Installation
from tests.support.manifests import a_class, sent

pytestmark = pytest.mark.controlplane


@dataclass(frozen=True)
class Comparison:
    """What one cluster stored before and after it, and after that with a class."""

    before: Mapping[str, str]
    after: Mapping[str, str]
    warnings: Sequence[str]
    with_class: JsonObject
    writes: Sequence[AuditEvent] = ()


@pytest.fixture(scope="module")
def comparison(request: pytest.FixtureRequest) -> Iterator[Comparison]:
    """On a cluster on which nothing was installed before."""
    if on_kind():
        installation: Installation = request.getfixturevalue("installation")
        installation.ensure()
        until(lambda: not installation.admin.items(CLASSES), DEADLINE_S, "no class is there")
        yield _compared(installation.cluster, installation.stored_before)
        return
    with ControlPlane() as cluster:
        cluster.create_namespace(NAMESPACE)
        before = {name: text for name, (text, _) in store_all(cluster).items()}
        with Product(cluster, webhook_count=1):
            compared = _compared(cluster, before)
            written = cluster.audit.writes("pods", namespace=NAMESPACE)
            yield replace(compared, writes=[write for write in written if "gpures" in write.by])


def _compared(cluster: ControlPlane, before: Mapping[str, str]) -> Comparison:
    answers = store_all(cluster)
    cluster.admin.create(sent(a_class("h100")))
    try:
        with_class = until(lambda: _held(cluster), DEADLINE_S, "the same pod is held once its class exists")
    finally:
        cluster.admin.delete(CLASSES, "h100")
    after = {name: text for name, (text, _) in answers.items()}
    warnings = [warning for _, given in answers.values() for warning in given]
    return Comparison(before, after, warnings, with_class)


@pytest.mark.parametrize("name", [name_of(pod) for pod in pods()])
def test_pod_is_stored_byte_for_byte_as_before_the_installation(name: str, comparison: Comparison) -> None:
    assert comparison.after[name] == comparison.before[name]


def test_nobody_is_warned(comparison: Comparison) -> None:
    assert comparison.warnings == []


@pytest.mark.usefixtures("audit_log")
def test_no_pod_is_written_to(comparison: Comparison) -> None:
    assert comparison.writes == []


def test_a_class_makes_the_difference(comparison: Comparison) -> None:
    assert reading.reason(comparison.with_class) == "NoReservation"


def _held(cluster: ControlPlane) -> JsonObject | None:
    """The pod with a label and GPUs, as our webhook would have it stored now."""
    pod = next(pod for pod in pods() if name_of(pod) == "gpu-with-label")
    answer = cluster.admin.create(pod, dry_run=True).object
    return answer if reading.reason(answer) not in ("", "Undecided") else None
