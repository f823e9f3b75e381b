"""A cluster with reserved nodes, a victim and an attacker, and what a row of the fence's table is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from common.domain import keys
from tests.component.builders import DEADLINE_S, container
from tests.controlplane.client import ApiClient, ApiError, PatchKind
from tests.controlplane.discovery import JsonObject
from tests.controlplane.polling import until
from tests.controlplane.product import Product
from tests.e2e.stage import Stage

FENCE = "validatingadmissionpolicybindings.admissionregistration.k8s.io"
WIDE = "fence-too-wide"
NUMBER = "950"
"""Value of a taint that the comparing operators would reach."""


class Verdict(StrEnum):
    REFUSED = "refused"
    HELD = "held"
    KEPT_OFF = "kept off"
    HARMLESS = "changes nothing"


class Seen(Exception):
    """What the attacker reads where it is no answer of the API server to them: an Event of a controller."""


@dataclass(frozen=True)
class Attack:
    """One row. `reads` is a part of what the attacker is told, `reads_down` while the webhook is down."""

    threat: str
    deed: str
    request: str
    attempt: Callable[[Scene], object]
    reads: str
    verdict: Verdict = Verdict.REFUSED
    reads_down: str = ""
    wide: bool = False

    def expected(self, *, webhook_up: bool) -> str:
        return self.reads if webhook_up or not self.reads_down else self.reads_down

    def verdict_when(self, *, webhook_up: bool) -> Verdict:
        """Some of what passes harmlessly while the webhook is up is refused without it."""
        return (
            Verdict.REFUSED if self.verdict is Verdict.HARMLESS and self.reads_down and not webhook_up else self.verdict
        )

    def try_it(self, scene: Scene) -> tuple[Verdict, str]:
        """What becomes of it, and all that the attacker reads."""
        try:
            done = self.attempt(scene)
        except ApiError as error:
            return Verdict.REFUSED, error.message
        except Seen as seen:
            return Verdict.REFUSED, str(seen)
        return scene.outcome(done, self.verdict)


class Scene:
    """The victim runs `runner` under a reservation; the attacker has pods in every state, each of which is theirs."""

    def __init__(self, product: Product) -> None:
        self.product = product
        self.stage = Stage(product)
        self.admin = product.control_plane.admin
        self.gpu_class = self.stage.gpu_class

    def open(self) -> Scene:
        self.stage.open(8)
        for name, value in (("numbered", NUMBER), ("valueless", "")):
            self.stage.nodes.append(self.stage.cluster.nodes.add_gpu_node(f"{self.gpu_class}-{name}", value, 8))
        self.alice, self.mallory = self.stage.tenant("alice"), self.stage.tenant("mallory")
        self.namespace = self.mallory.namespace
        self.tenant = self.mallory.client
        self.wide = self._too_wide()
        self.alice.hold_open("alices", units=1)
        self.alice.create_pod("runner")
        self.mallory.hold_open("sprint", units=1)
        self.mallory.create_pod("running")
        self.mallory.runs("running")
        self.alice.runs("runner")
        self.mallory.create_pod("waiting")
        self.mallory.waits_for("waiting", "ReservationFull")
        self.mallory.create_pod("bare", gpu_class="")
        twice = [{"key": "team.example/a", "operator": "Exists"}] * 2
        self.mallory.create_pod("doubled", gpu_class="", spec={"tolerations": twice})
        self.mallory.create_pod("cpus", spec={"containers": [container(cpu="1")]})
        self.mallory.create_pod("coy", spec={"containers": [container(cpu="1", **{"test.example/none": "0"})]})
        return self

    def close(self) -> None:
        for kind in ("clusterrolebindings", "clusterroles"):
            self.admin.delete(f"{kind}.rbac.authorization.k8s.io", WIDE)
        self.stage.close()

    def _too_wide(self) -> ApiClient:
        """The attacker after an administrator's mistake: everything but the policies themselves."""
        user = "wide@example.com"
        group = "rbac.authorization.k8s.io"
        rules = [
            {"apiGroups": ["", "batch", "apps", "gpures.dev"], "resources": ["*"], "verbs": ["*"]},
            {
                "apiGroups": ["admissionregistration.k8s.io"],
                "resources": ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"],
                "verbs": ["*"],
            },
        ]
        meta: JsonObject = {"name": WIDE}
        self.admin.create({"apiVersion": f"{group}/v1", "kind": "ClusterRole", "metadata": meta, "rules": rules})
        self.admin.create(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": meta,
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": WIDE},
                "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
            }
        )
        client = self.admin.as_user(user, ["system:authenticated"])
        until(lambda: client.items("nodes"), DEADLINE_S, "the role that is too wide", retry_on=(ApiError,))
        return client

    # What attackers do. `who` is "tenant" (the shipped role edit), "wide", or a client.

    def by(self, who: str) -> ApiClient:
        """A client by name; our own accounts with the rights that they have."""
        if who in ("tenant", "wide"):
            found: ApiClient = getattr(self, who)
            return found
        account = f"system:serviceaccount:gpures-system:gpures-{who}"
        groups = ["system:serviceaccounts", "system:serviceaccounts:gpures-system", "system:authenticated"]
        return self.admin.as_user(account, groups)

    def patch(
        self, pod: str, body: object, who: str = "tenant", sub: str | None = None, kind: PatchKind = "merge"
    ) -> Any:
        return self.by(who).patch("pods", pod, body, self.namespace, kind=kind, subresource=sub)

    def annotate(self, pod: str, values: Mapping[str, str | None], who: str = "tenant", sub: str | None = None) -> Any:
        return self.patch(pod, {"metadata": {"annotations": values}}, who, sub)

    def label(self, pod: str, values: Mapping[str, str | None], who: str = "tenant", sub: str | None = None) -> Any:
        return self.patch(pod, {"metadata": {"labels": values}}, who, sub)

    def create(self, who: str = "tenant", *, classed: bool = True, **fields: Any) -> Any:
        """A pod that is not stored if it passes; `held` and `kept off` are read from the answer."""
        manifest = self.mallory.manifest("attack", **({} if classed else {"gpu_class": ""}) | fields)
        return self.by(who).create(manifest, dry_run=True)

    def tolerate(self, pod: str, added: JsonObject, who: str = "tenant") -> Any:
        had = self.admin.get("pods", pod, self.namespace)["spec"].get("tolerations", [])
        return self.patch(pod, {"spec": {"tolerations": [*had, added]}}, who)

    def bind(self, pod: str, who: str = "wide", *, legacy: bool = False, **meta: JsonObject) -> Any:
        target = {"apiVersion": "v1", "kind": "Node", "name": self.stage.nodes[0]}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod, **meta}, "target": target}
        path = f"/api/v1/namespaces/{self.namespace}/" + ("bindings" if legacy else f"pods/{pod}/binding")
        return self.by(who).request("POST", path, body=body)

    def outcome(self, done: Any, expected: Verdict) -> tuple[Verdict, str]:
        """Of what was stored, or would have been."""
        pod = done.object
        told = " ".join([*done.warnings, *pod["metadata"].get("annotations", {}).values()])
        gates = [gate["name"] for gate in pod.get("spec", {}).get("schedulingGates", [])]
        if expected is Verdict.HELD:
            return (Verdict.HELD if keys.GATE in gates else Verdict.HARMLESS), told
        if expected is Verdict.KEPT_OFF:
            reached = [t for t in pod["spec"].get("tolerations", []) if t.get("key", "") in ("", keys.TAINT)]
            bound = "nodeName" in pod["spec"]
            return (Verdict.HARMLESS if reached or bound else Verdict.KEPT_OFF), told
        return Verdict.HARMLESS, told


@contextmanager
def scene_of(product: Product) -> Iterator[Scene]:
    scene = Scene(product)
    try:
        yield scene.open()
    finally:
        scene.close()


@contextmanager
def lists(admin: ApiClient, probe: Callable[[], bool], **values: str | None) -> Iterator[None]:
    """Other lists of the fence, from when `probe` sees them; the shipped ones afterwards."""
    named = {f"gpures.dev/fence-{name.replace('_', '-')}": value for name, value in values.items()}
    before = admin.get(FENCE, "gpures-fence")["metadata"]["annotations"]
    restored = {name: before.get(name) for name in named}
    admin.patch(FENCE, "gpures-fence", {"metadata": {"annotations": named}})
    try:
        until(probe, DEADLINE_S, f"the fence knows {named}")
        yield
    finally:
        admin.patch(FENCE, "gpures-fence", {"metadata": {"annotations": restored}})
        until(lambda: not probe(), DEADLINE_S, f"the fence forgets {named}")
