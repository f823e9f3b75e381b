"""What the loop does to Secrets and webhook configurations, step by step and after every loss."""

import base64
from datetime import timedelta

import pytest

from certs.facts import pair_of
from certs.issue import issue_ca, issue_leaf
from tests.support.clock import NOON
from tests.unit.certs.cluster import CA, DAY, MINUTE, MUTATING, NAMESPACE, SERVICE_NAME, TLS, VALIDATING, Cluster

PROPAGATION = 2 * MINUTE


@pytest.fixture
async def cluster() -> Cluster:
    """Installed and settled."""
    return await Cluster().install()


async def test_a_fresh_install_is_served_and_trusted_at_once() -> None:
    cluster = Cluster()
    cluster.configure()
    again = await cluster.rotation.settle()
    assert cluster.verifies()
    assert cluster.bundle() == [cluster.ca()]
    assert set(cluster.secret(TLS)) == {"tls.crt", "tls.key", "ca.crt"}
    assert set(cluster.secret(CA)) == {"tls.crt", "tls.key"}
    assert NOON + 59 * DAY < again < NOON + 60 * DAY
    assert [write[1].split("/")[-1] for write in cluster.kube.writes()] == [
        "secrets",
        "zz-gpures",
        "zz-gpures",
        "secrets",
    ]


async def test_the_key_of_the_ca_is_in_its_own_secret_only(cluster: Cluster) -> None:
    key = cluster.secret(CA)["tls.key"]
    assert b"PRIVATE KEY" in key
    assert key not in cluster.secret(TLS).values()
    assert not any(b"PRIVATE" in bundle for bundle in cluster.bundles())


async def test_before_the_configurations_are_there_a_leaf_is_made_all_the_same() -> None:
    cluster = Cluster()
    await cluster.rotation.settle()
    assert cluster.leaf().cert
    cluster.configure()
    await cluster.rotation.settle()
    assert cluster.verifies()


async def test_nothing_is_written_when_nothing_is_due(cluster: Cluster) -> None:
    cluster.clock.advance(30 * DAY)
    await cluster.rotation.settle()
    assert cluster.kube.writes() == []


async def test_a_leaf_is_renewed_after_two_thirds_of_its_life(cluster: Cluster) -> None:
    before, ca = cluster.leaf(), cluster.ca()
    cluster.clock.advance(60 * DAY)
    await cluster.rotation.settle()
    assert cluster.leaf() != before
    assert cluster.ca() == ca
    assert cluster.verifies()


async def test_a_new_ca_is_trusted_before_it_signs_and_the_old_one_goes_last(cluster: Cluster) -> None:
    old_ca = cluster.ca()
    cluster.clock.advance(2450 * DAY)
    cluster.put_secret(TLS, **renewed(cluster))
    old_leaf = cluster.leaf()
    again = await cluster.rotation.settle()
    new_ca = cluster.ca()
    assert new_ca != old_ca
    assert cluster.bundle() == [new_ca, old_ca]
    assert cluster.leaf() == old_leaf
    assert again == cluster.clock.now() + PROPAGATION
    cluster.clock.advance(PROPAGATION)
    await cluster.rotation.settle()
    assert cluster.leaf() != old_leaf
    assert cluster.bundle() == [new_ca, old_ca]
    assert cluster.verifies()
    cluster.clock.advance(timedelta(hours=23))
    await cluster.rotation.settle()
    assert cluster.bundle() == [new_ca, old_ca]
    cluster.clock.advance(timedelta(hours=1))
    await cluster.rotation.settle()
    assert cluster.bundle() == [new_ca]
    assert cluster.secret(TLS)["ca.crt"] == new_ca
    assert cluster.verifies()


def renewed(cluster: Cluster) -> dict[str, bytes]:
    """As if the leaf had been renewed all along."""
    ca = cluster.secret(CA)
    leaf = issue_leaf(pair_of(ca), (SERVICE_NAME,), cluster.clock.now())
    return {"tls_crt": leaf.cert, "tls_key": leaf.key, "ca_crt": ca["tls.crt"]}


# -------------------------------------------------------------------------------------------------- what is lost


async def test_a_wiped_bundle_is_put_back(cluster: Cluster) -> None:
    leaf = cluster.leaf()
    cluster.configure(generation=2)
    await cluster.rotation.settle()
    assert cluster.bundle() == [cluster.ca()]
    assert cluster.leaf() == leaf
    assert [path.split("/")[-2] for _, path, _ in cluster.kube.writes()] == [MUTATING, VALIDATING]


async def test_a_bundle_wiped_amid_a_rotation_gets_the_old_ca_back_too(cluster: Cluster) -> None:
    old = cluster.ca()
    cluster.delete_secret(CA)
    await cluster.rotation.settle()
    cluster.configure(generation=2)
    await cluster.rotation.settle()
    assert cluster.bundle() == [cluster.ca(), old]
    assert cluster.verifies()


async def test_one_entry_without_its_bundle_is_repaired_alone(cluster: Cluster) -> None:
    stored = cluster.kube.get(MUTATING, "", "zz-gpures")
    del stored["webhooks"][1]["clientConfig"]["caBundle"]
    cluster.kube.put(MUTATING, stored)
    await cluster.rotation.settle()
    ((_, _, operations),) = cluster.kube.writes()
    assert [operation["path"] for operation in operations] == [
        "/metadata/resourceVersion",
        "/webhooks/1/clientConfig/caBundle",
    ]
    assert cluster.verifies()


async def test_configurations_of_others_are_not_touched(cluster: Cluster) -> None:
    other = {"metadata": {"name": "another"}, "webhooks": [{"name": "a.example.com", "clientConfig": {}}]}
    stored = cluster.kube.put(MUTATING, other)
    cluster.configure(generation=2)
    await cluster.rotation.settle()
    assert cluster.kube.get(MUTATING, "", "another") == stored


async def test_a_deleted_leaf_is_made_again_under_the_same_ca(cluster: Cluster) -> None:
    ca = cluster.ca()
    cluster.delete_secret(TLS)
    await cluster.rotation.settle()
    assert cluster.verifies()
    assert cluster.bundle() == [ca]


async def test_a_lost_ca_is_followed_by_another_while_the_leaf_goes_on(cluster: Cluster) -> None:
    leaf, old = cluster.leaf(), cluster.ca()
    cluster.delete_secret(CA)
    await cluster.rotation.settle()
    assert cluster.leaf() == leaf
    assert cluster.bundle() == [cluster.ca(), old]
    cluster.clock.advance(PROPAGATION)
    await cluster.rotation.settle()
    assert cluster.leaf() != leaf
    assert cluster.verifies()


async def test_both_secrets_lost_what_replicas_still_serve_stays_trusted(cluster: Cluster) -> None:
    old = cluster.ca()
    cluster.delete_secret(CA)
    cluster.delete_secret(TLS)
    await cluster.rotation.settle()
    assert cluster.bundle() == [cluster.ca(), old]
    assert ("secrets", NAMESPACE, TLS) not in cluster.kube.objects
    cluster.clock.advance(PROPAGATION)
    await cluster.rotation.settle()
    assert cluster.verifies()
    assert cluster.secret(TLS)["ca.crt"] == cluster.ca() + old


@pytest.mark.parametrize("half", ["tls_crt", "tls_key", "ca_crt", "nothing"])
async def test_a_half_written_secret_is_made_whole(cluster: Cluster, half: str) -> None:
    ca = cluster.ca()
    kept = {key.replace(".", "_"): value for key, value in cluster.secret(TLS).items() if key.replace(".", "_") == half}
    cluster.put_secret(TLS, **kept)
    await cluster.rotation.settle()
    assert cluster.verifies()
    assert set(cluster.secret(TLS)) >= {"tls.crt", "tls.key", "ca.crt"}
    assert cluster.bundle() == [ca]


async def test_nonsense_everywhere_is_replaced(cluster: Cluster) -> None:
    cluster.kube.put("secrets", {"metadata": {"name": TLS, "namespace": NAMESPACE}, "data": {"tls.crt": "%%%"}})
    cluster.put_secret(CA, tls_crt=b"no certificate", tls_key=b"no key")
    stored = cluster.kube.get(VALIDATING, "", "zz-gpures")
    stored["webhooks"][0]["clientConfig"]["caBundle"] = "bm9uc2Vuc2U="
    cluster.kube.put(VALIDATING, stored)
    await cluster.rotation.settle()
    cluster.clock.advance(PROPAGATION)
    await cluster.rotation.settle()
    assert cluster.verifies()


async def test_an_expired_start_recovers_without_waiting(cluster: Cluster) -> None:
    cluster.clock.advance(4000 * DAY)
    await cluster.leader().settle()
    assert cluster.verifies()


async def test_a_clock_set_back_beyond_the_backdating_is_survived(cluster: Cluster) -> None:
    cluster.clock.advance(-10 * DAY)
    await cluster.rotation.settle()
    assert cluster.verifies()


@pytest.mark.parametrize("bundle_first", [True, False])
async def test_a_ca_swapped_by_hand_in_either_order(cluster: Cluster, *, bundle_first: bool) -> None:
    now = cluster.clock.now()
    theirs = issue_ca("theirs", now)
    leaf = issue_leaf(theirs, (SERVICE_NAME,), now)

    def swap_secret() -> None:
        cluster.put_secret(TLS, tls_crt=leaf.cert, tls_key=leaf.key, ca_crt=theirs.cert)

    def swap_bundle() -> None:
        for plural in (MUTATING, VALIDATING):
            stored = cluster.kube.get(plural, "", "zz-gpures")
            for each in stored["webhooks"]:
                each["clientConfig"]["caBundle"] = base64.b64encode(theirs.cert).decode()
            cluster.kube.put(plural, stored)

    for swap in (swap_bundle, swap_secret) if bundle_first else (swap_secret, swap_bundle):
        swap()
        await cluster.rotation.settle()
        assert cluster.verifies()
    assert theirs.cert in cluster.bundle() or cluster.leaf() != leaf
    cluster.clock.advance(PROPAGATION)
    await cluster.rotation.settle()
    assert cluster.bundle()[0] == cluster.ca()
    assert cluster.verifies()
