"""Reservations of one namespace, written as the leader and the webhook write them."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from tests.component.builders import RESERVATIONS, reservation
from tests.controlplane.client import ApiClient, ApiError, PatchKind
from tests.controlplane.discovery import JsonObject

START, END = "2026-12-01T09:00:00Z", "2026-12-01T13:00:00Z"
TERMINAL = ("Ended", "Denied", "Canceled")


class Rows:
    """Writes reservations of one namespace as the leader does."""

    def __init__(self, admin: ApiClient, namespace: str) -> None:
        self.admin = admin
        self.namespace = namespace
        self._count = itertools.count(1)

    def create(self, spec: JsonObject | None = None, **meta: JsonObject) -> str:
        name = f"row-{next(self._count)}"
        self.admin.create(reservation(name, spec, **meta), namespace=self.namespace)
        return name

    def confirmed(self, units: int, claims: dict[str, int] | None = None) -> str:
        """A row that is Active with a promise, and claims on it."""
        name = self.create({"units": units})
        granted = {"start": START, "end": END, "units": units}
        self.status(name, {"phase": "Active", "granted": granted, "claims": claims or {}})
        return name

    def get(self, name: str) -> JsonObject:
        return self.admin.get(RESERVATIONS, name, self.namespace)

    def claims(self, name: str) -> dict[str, int]:
        found: dict[str, int] = self.get(name)["status"].get("claims", {})
        return found

    def status(self, name: str, status: object, kind: PatchKind = "merge") -> None:
        self.admin.patch(
            RESERVATIONS,
            name,
            {"status": status} if kind == "merge" else status,
            self.namespace,
            kind=kind,
            subresource="status",
        )

    def spec(self, name: str, spec: JsonObject) -> None:
        self.admin.patch(RESERVATIONS, name, {"spec": spec}, self.namespace)

    def claim(self, name: str, token: str, units: int, *, uid: str | None = None) -> None:
        """As the webhook claims: the row must be the one that was looked at."""
        self.status(
            name,
            [
                {"op": "test", "path": "/metadata/uid", "value": uid or self.get(name)["metadata"]["uid"]},
                {"op": "add", "path": f"/status/claims/{token}", "value": units},
            ],
            kind="json",
        )


def refused(call: Callable[[], object]) -> str:
    """The API server's sentence, once it has judged and refused."""
    with pytest.raises(ApiError) as caught:
        call()
    assert caught.value.code == 422, caught.value.message
    return caught.value.message
