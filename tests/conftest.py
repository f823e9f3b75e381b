"""Fixtures for every tier; a cluster starts only where a test asks for it."""

from tests.controlplane.fixtures import (  # noqa: F401 - pytest finds fixtures by importing them
    api_proxy,
    audit_log,
    control_plane,
    control_plane_without_hold_policy,
    namespace,
    processes_at_hand,
    stand_in_nodes,
)
from tests.kind.fixtures import installation, kind_cluster  # noqa: F401 - same
