"""A webhook configuration of ours that is gone is told, and not made again."""

import asyncio

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from tests.support.waiting import eventually
from tests.unit.certs.cluster import MUTATING, VALIDATING, Cluster

KINDS = {MUTATING: "mutating", VALIDATING: "validating"}


def missing() -> dict[str, float | None]:
    name = "gpures_webhook_configurations_missing"
    return {kind: REGISTRY.get_sample_value(name, {"kind": kind}) for kind in KINDS.values()}


@pytest.mark.parametrize("gone", KINDS)
async def test_one_that_is_gone_is_told_once_and_counted_until_it_is_back(gone: str) -> None:
    cluster = await Cluster().install()
    assert missing() == {"mutating": 0, "validating": 0}
    cluster.kube.remove(gone, "", "zz-gpures")
    with capture_logs() as logs:
        await cluster.rotation.settle()
        await cluster.rotation.settle()
        assert missing() == {kind: float(plural == gone) for plural, kind in KINDS.items()}
        cluster.configure(generation=2)
        await cluster.rotation.settle()
    told = [(entry["event"], entry["kind"]) for entry in logs if entry["event"].startswith("webhooks.")]
    assert told == [("webhooks.configuration_missing", KINDS[gone]), ("webhooks.configuration_back", KINDS[gone])]
    assert missing() == {"mutating": 0, "validating": 0}


@pytest.mark.parametrize("mode", ["selfManaged", "certManager", "files"])
async def test_it_is_seen_whoever_makes_the_certificates_and_forgotten_by_who_leads_no_more(mode: str) -> None:
    cluster = Cluster()
    term = asyncio.create_task(cluster.leader(certs=mode).run())
    await eventually(lambda: missing() == {"mutating": 1, "validating": 1})
    term.cancel()
    await asyncio.wait([term])
    assert missing() == {"mutating": None, "validating": None}
