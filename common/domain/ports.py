"""What the decisions and loops ask of the world, each with one to four methods. Fakes in tests implement these."""

from collections.abc import Mapping
from typing import Any, Protocol

from common.domain.reservation import ObjectKey, Token

JsonPatch = list[dict[str, Any]]


class ClaimsApi(Protocol):
    """The only write that the webhook makes."""

    async def add_claims(self, key: ObjectKey, uid: str, claims: Mapping[Token, int], timeout_s: float) -> bytes:
        """JSON patch of `status.claims` that tests the uid; returns the stored object's JSON.

        Raises NotFound, Refused (422: over budget, ended, other uid), OutcomeUnknown (cut, timeout, 5xx).
        """
        ...

    async def read_reservation(self, key: ObjectKey, timeout_s: float) -> bytes:
        """Quorum read of the object's JSON; raises NotFound or OutcomeUnknown."""
        ...
