"""What people type, and what they read then."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from datetime import datetime, timedelta

from tests.controlplane.discovery import JsonObject
from tests.e2e import reading
from tests.e2e.stage import Stage, Tenant
from tests.support.manifests import a_reservation, sent


def kubectl(tenant: Tenant, *arguments: str, stdin: JsonObject | None = None) -> subprocess.CompletedProcess[str]:
    """In the tenant's name and namespace; a refusal is an answer too."""
    return tenant.stage.cluster.kubectl(
        f"--as={tenant.user}",
        "--as-group=system:authenticated",
        f"--namespace={tenant.namespace}",
        *arguments,
        stdin=None if stdin is None else json.dumps(stdin),
        check=False,
    )


def create(tenant: Tenant, manifest: JsonObject, *options: str) -> str:
    done = kubectl(tenant, "create", *options, "--filename=-", stdin=manifest)
    return done.stderr + done.stdout


def a_booking(tenant: Tenant, name: str, units: int, start: datetime, end: datetime) -> JsonObject:
    window = {"start": reading.on_the_wire(start), "end": reading.on_the_wire(end)}
    wish: JsonObject = {"gpuClass": tenant.stage.gpu_class, "units": units} | window
    return sent(a_reservation(name, tenant.namespace, **wish))


def names(tenant: Tenant, **more: str) -> Mapping[str, str]:
    return {"namespace": tenant.namespace, "class": tenant.stage.gpu_class, "user": tenant.user, **more}


def tomorrow(stage: Stage, hour: int) -> datetime:
    return (stage.now() + timedelta(days=1)).replace(hour=hour, minute=0, second=0)
