"""Fixtures for every tier; the control plane starts only where a test asks for it."""

from tests.controlplane.fixtures import (  # noqa: F401 - pytest finds fixtures by importing them
    api_proxy,
    control_plane,
    control_plane_without_hold_policy,
    namespace,
)
