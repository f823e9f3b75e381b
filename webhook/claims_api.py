"""The webhook's one write: claims added to a reservation's status by JSON patch."""

from collections.abc import Mapping

from common.adapters import metrics, paths
from common.adapters.clock import monotonic
from common.adapters.kube import JSON_PATCH, Kube
from common.domain.claim_patch import claim_operations
from common.domain.errors import ApiError, NotFound, Refused
from common.domain.reservation import ObjectKey, Token


class KubeClaims:
    """Implements `ports.ClaimsApi`."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def add_claims(self, key: ObjectKey, uid: str, claims: Mapping[Token, int], timeout_s: float) -> bytes:
        operations = claim_operations(uid, claims)
        metrics.CLAIMS_PER_PATCH.observe(len(claims))
        began = monotonic()
        outcome = "stored"
        try:
            answer = await self._kube.request(
                "PATCH",
                paths.reservation(key, "status"),
                body=operations,
                content_type=JSON_PATCH,
                timeout_s=timeout_s,
            )
        except ApiError as error:
            outcome = _outcome(error)
            raise
        finally:
            metrics.CLAIM_PATCHES.labels(outcome).inc()
            metrics.CLAIM_SECONDS.observe(monotonic() - began)
        return answer.body

    async def read_reservation(self, key: ObjectKey, timeout_s: float) -> bytes:
        # Without a resourceVersion in the query this is a quorum read.
        answer = await self._kube.request("GET", paths.reservation(key), timeout_s=timeout_s)
        return answer.body


def _outcome(error: ApiError) -> str:
    match error:
        case Refused():
            return "refused"
        case NotFound():
            return "not_found"
        case _:
            return "unknown"
