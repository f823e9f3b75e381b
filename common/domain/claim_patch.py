"""The JSON Patch that claims units: the same from the webhook and the reconciler, judged by the API server (R1)."""

from collections.abc import Mapping
from typing import Any

from common.domain.ports import JsonPatch
from common.domain.reservation import Token


def same_uid(uid: str) -> dict[str, Any]:
    """A name may be used again by another object."""
    return {"op": "test", "path": "/metadata/uid", "value": uid}


def claim_operations(uid: str, claims: Mapping[Token, int]) -> JsonPatch:
    """`add` of a token that stands already changes nothing, so the same claim may be asked for again."""
    adds = [{"op": "add", "path": f"/status/claims/{token}", "value": units} for token, units in claims.items()]
    return [same_uid(uid), *adds]
