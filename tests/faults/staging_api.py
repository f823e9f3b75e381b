"""How the control plane itself is broken: the API server and etcd."""

from __future__ import annotations

import shutil
from collections.abc import Sequence

import httpx

from tests.controlplane.client import ApiError
from tests.controlplane.polling import until
from tests.faults.timing import lasts
from tests.faults.world import World

DEADLINE_S = 120.0
API, ETCD = "kube-apiserver", "etcd"
CACHING = ("kube-controller-manager", "kube-scheduler", "kwok")
PASSING = (ApiError, httpx.HTTPError)


def killed(world: World) -> Sequence[str]:
    world.part(API).kill()
    world.lasts(10, 4)
    world.part(API).start()
    _serves(world)
    return ()


def frozen(world: World) -> Sequence[str]:
    world.part(API).freeze()
    world.lasts(15, 6)
    world.part(API).thaw()
    _serves(world)
    return ()


def etcd_lost(world: World) -> Sequence[str]:
    world.part(ETCD).freeze()
    world.lasts(10, 4)
    world.part(ETCD).thaw()
    world.lasts(5, 2)
    world.part(ETCD).kill()
    world.lasts(8, 3)
    world.part(ETCD).start()
    _serves(world)
    return ()


def etcd_restored(world: World) -> Sequence[str]:
    """The backup is taken of a frozen etcd, which is what a crash leaves. Clients of the cluster start anew."""
    data = world.cluster.layout.etcd_data
    backup = data.with_name("backup")
    world.part(ETCD).freeze()
    shutil.copytree(data, backup)
    world.part(ETCD).thaw()
    lasts(6)
    for name in (*CACHING, API, ETCD):
        world.part(name).kill()
    shutil.rmtree(data)
    backup.rename(data)
    world.part(ETCD).start()
    world.part(API).start()
    _serves(world)
    world.auditor.starts_anew()
    for name in CACHING:
        world.part(name).start()
    return ("resourceVersions went back by some seconds",)


def _serves(world: World) -> None:
    """A moment after it says that it is ready, the API server knows who may do what."""
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe", "namespace": world.bob.namespace}}
    probe = pod | {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}
    until(lambda: world.bob.client.create(probe, dry_run=True), DEADLINE_S, "the API server serves", retry_on=PASSING)
