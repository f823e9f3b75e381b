"""Deployments, Jobs and their kin, as users send them."""

from __future__ import annotations

from typing import Any

from tests.controlplane.discovery import JsonObject
from tests.e2e.stage import Tenant


def a_deployment(tenant: Tenant, name: str, replicas: int, gpus: int = 1) -> JsonObject:
    return _owner("apps/v1", "Deployment", name, _selected(tenant, name, gpus) | {"replicas": replicas})


def a_stateful_set(tenant: Tenant, name: str, replicas: int, gpus: int = 1) -> JsonObject:
    spec = _selected(tenant, name, gpus) | {"replicas": replicas, "serviceName": name}
    return _owner("apps/v1", "StatefulSet", name, spec)


def a_daemon_set(tenant: Tenant, name: str, gpus: int = 1, **pod: Any) -> JsonObject:
    return _owner("apps/v1", "DaemonSet", name, _selected(tenant, name, gpus, **pod))


def a_job(tenant: Tenant, name: str, parallelism: int = 1, gpus: int = 1) -> JsonObject:
    return _owner("batch/v1", "Job", name, _once(tenant, name, parallelism, gpus))


def a_cron_job(tenant: Tenant, name: str, gpus: int = 1) -> JsonObject:
    """Once a year; see `is_due`."""
    job = {"spec": _once(tenant, name, 1, gpus)}
    return _owner("batch/v1", "CronJob", name, {"schedule": "0 0 1 1 *", "jobTemplate": job})


def is_due(tenant: Tenant, name: str) -> None:
    """Let a CronJob believe that it missed a year, so that it starts its Job at once."""
    last = {"status": {"lastScheduleTime": "2020-01-01T00:00:00Z"}}
    tenant.admin.patch("cronjobs.batch", name, last, tenant.namespace, subresource="status")


def _owner(version: str, kind: str, name: str, spec: JsonObject) -> JsonObject:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def _selected(tenant: Tenant, name: str, gpus: int, **pod: Any) -> JsonObject:
    return {"selector": {"matchLabels": {"app": name}}, "template": _template(tenant, name, gpus, **pod)}


def _once(tenant: Tenant, name: str, parallelism: int, gpus: int) -> JsonObject:
    template = _template(tenant, name, gpus, spec={"restartPolicy": "Never"})
    return {"parallelism": parallelism, "completions": parallelism, "template": template}


def _template(tenant: Tenant, name: str, gpus: int, **pod: Any) -> JsonObject:
    manifest = tenant.manifest(name, gpus, labels={"app": name}, **pod)
    return {"metadata": {"labels": manifest["metadata"]["labels"]}, "spec": manifest["spec"]}
