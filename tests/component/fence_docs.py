"""Writes `docs/reference/fence.md` from the table: `python -m tests.component.fence_docs`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from tests.component.fence_table import ATTACKS, ELSEWHERE, FORMS, THREATS

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "reference" / "fence.md"
POLICIES = ROOT / "deploy" / "policies"

HEAD = """\
# The fence

<!-- Made by `python -m tests.component.fence_docs`; a test compares. Change tests/component/fence_table.py instead. -->

Admission policies in the API server keep tenants off reserved nodes, whatever becomes of our own processes. The taint
keeps off what goes through the scheduler; the fence closes the ways round it. What asks for no device and names no
class is left alone, and so are kube-system, kube-public, kube-node-lease and our namespace.

## Who is let through

The lists are annotations of one object, `kubectl edit validatingadmissionpolicybinding gpures-fence`; commas between
the names, exact names, spaces do not count. A list that is missing (or misspelt) is as shipped, or empty where the
table says so; an empty list lets nobody through; a name that is misspelt lets nobody through.

"""
AFTER_LISTS = """
**Before you install:** list every scheduler that binds pods on this cluster (Volcano, YuniKorn, Koordinator, …) in
`gpures.dev/fence-allowed-binders`; an unlisted one is refused, also for pods without GPUs.

**In an emergency** `kubectl delete validatingadmissionpolicybinding gpures-fence` takes the fence down and refuses
nothing: the lists are an object of the fence itself, so that there is no state in which the fence is in force without
them. They are no ConfigMap, because one that is missing would either open the fence unseen or refuse every write to
every pod of the cluster.

**Policies cannot protect policies.** The API server sends nobody's policy to a policy. Rights on
`validatingadmissionpolicies`, `mutatingadmissionpolicies` and their bindings are rights to take the fence down; give
them to administrators only. The same goes for membership in `system:masters`, and for node access: a static pod asks
nobody.

## Its parts

"""
ATTACK_HEAD = """
## What attackers try

Every row is run against a real API server, scheduler and controller manager, with the webhook up and with it down, as
a tenant who has the role `edit` in a namespace. Rows marked ⚠ are run with more rights than any tenant should have
(every right on every pod, binding, reservation and webhook configuration): there RBAC has failed, and the fence alone
stands. The last column is what the attacker gets to read.

| threat | what the attacker does | request | outcome | what they read |
|---|---|---|---|---|
"""
FORM_HEAD = """
## Forms of tolerations

Each is sent at creation, and added to a stored pod, on a pod that asks for a GPU. It is refused exactly where the real
scheduler would let the pod onto a node with the taint `gpu-class-reservation` (of a class, with a number for a value,
or without a value). While the webhook is down, the guard refuses the reserved key at creation whatever its effect.

"""
TAIL = """
## What it does not see

- `NVIDIA_VISIBLE_DEVICES` from an image, from `envFrom`, or in a pod with more than 2,000 variables; a host path to all
  of `/dev`. Set the container runtime to ignore the variable in unprivileged containers, and the pod security standard
  `baseline`.
- Pods that name a node and ask for `cpu` or `memory` only, without the class label and without the reserved
  toleration: so do `kubectl debug node` and node agents. Where a class counts native resources, give its nodes the
  taint with `NoExecute` too.
- Growth of `cpu` in place, on a pod that asks for GPUs as well, where a class counts both.
- What else of a reserved node is used, and by whom. A pod that asks for no GPU and brings the reserved toleration, or
  one of every taint, is taken for a node agent: it can fill the node's `cpu` and `memory`, so a pod that was let in
  finds no place. The scheduler preempts by priority, also pods inside their window: whoever may use a priority class
  above theirs takes their place with such a pod, or with one under a reservation of their own. Bind priority classes to
  namespaces (a ResourceQuota with the scope `PriorityClass`, and the API server's `limitedResources` for it), and bound
  what each namespace asks for.
"""


def page() -> str:
    """The whole page."""
    return "".join(
        [HEAD, *_lists(), AFTER_LISTS, *_parts(), ATTACK_HEAD, *_attacks(), FORM_HEAD, *_forms(), TAIL, *_elsewhere()]
    )


def _objects(kind: str) -> Iterator[tuple[Path, dict[str, object]]]:
    for path in sorted(POLICIES.glob("fence*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document["kind"] == kind:
                yield path, document


def _lists() -> Sequence[str]:
    meaning = {
        "break-glass-groups": "groups whose members pass everywhere",
        "infrastructure-namespaces": "namespaces in which everything passes",
        "allowed-binders": "users or groups that bind pods to nodes",
        "ca-injectors": "users or groups that may change the caBundle of our webhook configurations",
        "installers": "users or groups that may change and delete our webhook configurations",
    }
    binding = next(d for _, d in _objects("ValidatingAdmissionPolicyBinding") if _name(d) == "gpures-fence")
    shipped = binding["metadata"]["annotations"]  # type: ignore[index]
    rows = [
        f"| `{key}` | {meaning[key.removeprefix('gpures.dev/fence-')]} | `{value}` |\n"
        for key, value in shipped.items()
    ]
    unlisted = (
        "| (missing) | `infrastructure-namespaces` and `ca-injectors` are empty then, the others as shipped | |\n"
    )
    return ["| annotation | who | shipped |\n|---|---|---|\n", *rows, unlisted]


def _parts() -> Sequence[str]:
    rows = []
    for path, policy in _objects("ValidatingAdmissionPolicy"):
        about = (
            " ".join(line.removeprefix("# ") for line in _first_comment(path))
            .split(": ", 1)[-1]
            .split(". ")[0]
            .rstrip(".")
        )
        rows.append(f"| `{path.name}` | {about[0].upper()}{about[1:]} | {policy['spec']['failurePolicy']} |\n")  # type: ignore[index]
    return ["| file | what for | when it cannot be judged |\n|---|---|---|\n", *rows]


def _first_comment(path: Path) -> Iterator[str]:
    for line in path.read_text().splitlines():
        if not line.startswith("# "):
            return
        yield line


def _name(document: dict[str, object]) -> str:
    return str(document["metadata"]["name"])  # type: ignore[index]


def _attacks() -> Iterator[str]:
    for row in ATTACKS:
        reads = f"`…{row.reads}…`" if row.reads else "nothing new"
        if row.reads_down:
            reads += f"<br>webhook down: `…{row.reads_down}…`"
        verdict = str(row.verdict)
        if row.verdict_when(webhook_up=False) is not row.verdict:
            verdict += f"; {row.verdict_when(webhook_up=False)} while the webhook is down"
        deed = f"{row.deed}{' ⚠' if row.wide else ''}"
        yield f"| {row.threat}: {THREATS[row.threat]} | {deed} | {row.request} | {verdict} | {reads} |\n"


def _forms() -> Iterator[str]:
    for form in FORMS:
        yield f"- `{json.dumps(form)}`\n"


def _elsewhere() -> Iterator[str]:
    for threat, why in ELSEWHERE.items():
        yield f"- {threat}: {why}.\n"


if __name__ == "__main__":
    PAGE.write_text(page())
