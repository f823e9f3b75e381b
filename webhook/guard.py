"""Refuses pods that bring their own way onto reserved nodes (R2, guard). Sees the pod as the user sent it, only here.

Its entry is `failurePolicy: Fail`, `reinvocationPolicy: Never`, and match conditions keep normal pods away from it.
"""

from collections.abc import Callable

from common.adapters.wire import PodWire, pod_view
from common.domain import keys
from common.domain.pod import PodView
from common.domain.tolerations import forged, names_taint
from common.domain.units import is_native
from webhook.index import Index
from webhook.review import Decision, NotReady, Request, allowed, denied

TOKEN = (
    f"annotation {keys.CLAIM} is written by the reservation system only; take it off the pod or its template, "
    "and the pod gets a claim of its own"
)
EXACT = (
    f"toleration {keys.TAINT} is added by the reservation system when a reservation opens; take it off the pod or its "
    f"template, keep the label {keys.CLASS_LABEL}, and book: kubectl explain gpures.spec"
)
WILDCARD = (
    "the pod asks for reserved GPUs and tolerates every taint (operator Exists without a key), which would go round "
    "reservations; name the taints that it needs instead"
)


class Guard:
    def __init__(self, index: Index, synced: Callable[[], bool]) -> None:
        self._index = index
        self._synced = synced

    async def decide(self, request: Request[PodWire], _within_s: float) -> Decision:
        refusal = self.refusal(pod_view(request.object, request.namespace)) if request.object is not None else None
        return allowed(request.uid) if refusal is None else denied(request.uid, *refusal)

    def _untouched(self) -> bool:
        """A cluster without a GPUClass: nothing of ours means anything there."""
        return self._synced() and not self._index.labels

    def refusal(self, pod: PodView) -> tuple[str, str] | None:
        """The sentence and its short name; raises NotReady."""
        if pod.token is not None and not self._untouched():
            return TOKEN, "Token"
        exact = any(names_taint(toleration) for toleration in pod.tolerations)
        if self._synced():
            if not forged(pod.tolerations, pod.requests, self._index.enforced_in(pod.namespace)):
                return None
            return (EXACT, "Toleration") if exact else (WILDCARD, "Wildcard")
        # Safe for the cluster while it is not known which classes there are (R4).
        if exact and any(quantity > 0 and not is_native(resource) for resource, quantity in pod.requests.items()):
            return EXACT, "Toleration"
        message = "the GPU classes are not known yet, come back in a second"
        raise NotReady(message)
