"""Listens where the API server looks for a Service, so that webhook configurations are used as they ship."""

from __future__ import annotations

from tests.controlplane.cluster import ControlPlane
from tests.controlplane.discovery import JsonObject
from tests.controlplane.splitter import BackEnd, Splitter


def service_splitter(
    control_plane: ControlPlane, namespace: str, name: str, *back_ends: BackEnd, port: int = 443
) -> Splitter:
    """Return a splitter at the address of a Service, which is created unless it is there.

    The addresses of Services lie in 127/8 here. Ports below 1024 need the right to listen on them.
    """
    service = control_plane.admin.find("services", name, namespace)
    if service is None:
        spec = {"selector": {"app": name}, "ports": [{"name": "https", "port": port}]}
        manifest: JsonObject = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
        service = control_plane.admin.create(manifest, namespace=namespace).object
    listening = service["spec"]["ports"][0]["port"]
    return Splitter(*back_ends, host=str(service["spec"]["clusterIP"]), port=int(listening))
