"""Finds the path of a resource from its plural name or from an object's kind, by asking the API server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

JsonObject: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Resource:
    """A kind of object, as the API server serves it."""

    api_version: str
    plural: str
    kind: str
    namespaced: bool

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the path of a collection, an object or a subresource."""
        root = "/api/v1" if self.api_version == "v1" else f"/apis/{self.api_version}"
        within = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        return "/".join(part for part in (f"{root}{within}/{self.plural}", name, subresource) if part)


class Discovery:
    """Remembers what was found; what is not found is asked for again (it may have been installed meanwhile)."""

    def __init__(self, get: Callable[[str], JsonObject]) -> None:
        """Take the function that fetches a path."""
        self._get = get
        self._by_version: dict[str, list[Resource]] = {}
        self._preferred: dict[str, str] = {}

    def by_plural(self, key: str) -> Resource:
        """Find "pods" (core) or "deployments.apps" (plural, dot, group)."""
        plural, _, group = key.partition(".")
        if not group:
            return self._find("v1", lambda resource: resource.plural == plural, key)
        if group not in self._preferred:
            self._preferred[group] = str(self._get(f"/apis/{group}")["preferredVersion"]["groupVersion"])
        return self._find(self._preferred[group], lambda resource: resource.plural == plural, key)

    def of_object(self, obj: JsonObject) -> Resource:
        """Find the resource of an object by its apiVersion and kind."""
        api_version, kind = str(obj["apiVersion"]), str(obj["kind"])
        return self._find(api_version, lambda resource: resource.kind == kind, f"{api_version} {kind}")

    def _find(self, api_version: str, wanted: Callable[[Resource], bool], what: str) -> Resource:
        for known in (self._by_version.get(api_version), None):
            for resource in known if known is not None else self._fetch(api_version):
                if wanted(resource):
                    return resource
        message = f"the API server does not serve {what}"
        raise LookupError(message)

    def _fetch(self, api_version: str) -> list[Resource]:
        served = self._get("/api/v1" if api_version == "v1" else f"/apis/{api_version}")
        found = [
            Resource(api_version, entry["name"], entry["kind"], bool(entry["namespaced"]))
            for entry in served["resources"]
            if "/" not in entry["name"]
        ]
        self._by_version[api_version] = found
        return found
