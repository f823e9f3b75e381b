"""What `deploy/` ships says the same as the code, and the same everywhere. No cluster is needed."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import pytest
import yaml

from common.adapters.wire import decode_class, decode_reservation, encode_duration, gpu_class, reservation
from common.domain import keys
from common.domain.gpu_class import ClassUnits, GpuClass, Limits, Mode, OnCancel, Unit, WithoutReservation
from common.domain.reasons import Reason
from common.domain.reservation import MAX_CLAIMS, OPENABLE, TERMINAL, Phase, ReservationType

Manifest: TypeAlias = dict[str, Any]

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
FILES = [path for folder in ("base", "crds", "policies") for path in sorted((DEPLOY / folder).glob("*.yaml"))]
LEFT_ALONE = ["kube-system", "kube-public", "kube-node-lease", "gpures-system"]
UNDECIDED = "Undecided: held until the reservation service answers; nothing is lost, it starts by itself"


def documents(path: Path) -> list[Manifest]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


ALL = [document for path in FILES for document in documents(path)]


def manifest(kind: str, name: str) -> Manifest:
    return next(entry for entry in ALL if entry["kind"] == kind and entry["metadata"]["name"] == name)


def schema(plural: str) -> Manifest:
    crd = manifest("CustomResourceDefinition", f"{plural}.gpures.dev")
    found: Manifest = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return found


def field(plural: str, path: str) -> Manifest:
    node = schema(plural)
    for part in path.split("."):
        node = node["items"] if part == "[]" else node["properties"][part]
    return node


def nodes(node: Manifest, path: str = "") -> Iterator[tuple[str, Manifest]]:
    """Every schema in a schema, with its path."""
    yield path, node
    for name, child in node.get("properties", {}).items():
        yield from nodes(child, f"{path}.{name}".lstrip("."))
    for name, key in (("[]", "items"), ("{}", "additionalProperties")):
        if key in node:
            yield from nodes(node[key], f"{path}.{name}".lstrip("."))


def camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.capitalize() for part in tail)


# ------------------------------------------------------------------------------------- the schema and the domain


@pytest.mark.parametrize(
    ("plural", "path", "values"),
    [
        ("gpureservations", "status.phase", Phase),
        ("gpureservations", "spec.type", ReservationType),
        ("gpuclasses", "spec.mode", Mode),
        ("gpuclasses", "spec.modeFor.[].mode", Mode),
        ("gpuclasses", "spec.withoutReservation", WithoutReservation),
        ("gpuclasses", "spec.onCancel", OnCancel),
    ],
)
def test_the_schema_knows_the_values_of_the_domain(plural: str, path: str, values: type[StrEnum]) -> None:
    assert field(plural, path)["enum"] == [str(value) for value in values]


def defaulted(node: Manifest) -> Any:
    """What the API server makes of an absent value."""
    if "default" not in node:
        return None
    value = node["default"]
    if isinstance(value, dict):
        inner = {name: defaulted(child) for name, child in node.get("properties", {}).items()}
        return {name: found for name, found in inner.items() if found is not None} | value
    return value


def test_a_class_with_the_defaults_of_the_schema_is_the_class_with_those_of_the_domain() -> None:
    spec = defaulted(field("gpuclasses", "spec"))
    read = decode_class(msgspec.json.encode({"metadata": {"name": "h100"}, "spec": spec}))
    left_out = decode_class(msgspec.json.encode({"metadata": {"name": "h100"}}))
    plain = GpuClass(name="h100", uid="", version="", created=left_out.created, label="h100")
    assert read == left_out == plain


def test_the_schema_says_every_default_of_a_class() -> None:
    limits = Limits()
    assert limits.max_duration is not None
    assert limits.max_ahead is not None
    assert defaulted(field("gpuclasses", "spec")) == {
        "mode": Mode.ENFORCE,
        "withoutReservation": WithoutReservation.HOLD,
        "unit": {"name": Unit().name, "resources": {name: str(size) for name, size in Unit().resources.items()}},
        "spare": 0,
        "limits": {
            "maxDuration": encode_duration(limits.max_duration),
            "maxAhead": encode_duration(limits.max_ahead),
            "maxReservationsPerNamespace": limits.max_reservations_per_namespace,
        },
        "onCancel": OnCancel.LAZY,
        "keepFinished": "336h",
    }


def test_a_new_reservation_has_the_same_defaults_everywhere() -> None:
    spec = {name: defaulted(node) for name, node in field("gpureservations", "spec")["properties"].items()}
    given = {name: value for name, value in spec.items() if value is not None}
    assert given == {"units": 1, "type": ReservationType.BOOKING}
    bare = {"metadata": {"name": "r", "namespace": "n"}, "spec": {"gpuClass": "h100", "duration": "4h"}}
    full = bare | {"spec": {**bare["spec"], **given}, "status": defaulted(field("gpureservations", "status"))}
    assert decode_reservation(msgspec.json.encode(full)) == decode_reservation(msgspec.json.encode(bare))


def test_the_schema_bounds_the_claims_as_routing_does() -> None:
    assert field("gpureservations", "status.claims")["maxProperties"] == MAX_CLAIMS


def test_the_units_of_a_class_are_those_of_the_domain() -> None:
    assert list(field("gpuclasses", "status.units")["properties"]) == [
        camel(each.name) for each in dataclasses.fields(ClassUnits)
    ]


@pytest.mark.parametrize(
    ("plural", "path", "struct", "for_people"),
    [
        ("gpureservations", "spec", reservation.WishWire, {"note"}),
        ("gpureservations", "spec.pods", reservation.SelectorWire, set()),
        ("gpureservations", "status", reservation.ReservationStatusWire, set()),
        ("gpureservations", "status.granted", reservation.GrantedWire, set()),
        ("gpuclasses", "spec", gpu_class.ClassSpecWire, {"description"}),
        ("gpuclasses", "spec.modeFor.[]", gpu_class.ModeForWire, set()),
        ("gpuclasses", "spec.defaultFor", gpu_class.DefaultForWire, set()),
        ("gpuclasses", "spec.unit", gpu_class.UnitWire, set()),
        ("gpuclasses", "spec.limits", gpu_class.LimitsWire, set()),
        ("gpuclasses", "status", gpu_class.ClassStatusWire, {"nodes", "observedGeneration"}),
        ("gpuclasses", "status.units", gpu_class.UnitsWire, set()),
    ],
)
def test_the_schema_has_the_fields_that_we_read_and_some_for_people(
    plural: str, path: str, struct: type[msgspec.Struct], for_people: set[str]
) -> None:
    read = {entry.encode_name for entry in msgspec.structs.fields(struct)}
    assert set(field(plural, path)["properties"]) - read == for_people
    assert read <= set(field(plural, path)["properties"])


@pytest.mark.parametrize("plural", ["gpureservations", "gpuclasses"])
def test_kubectl_explain_has_a_sentence_for_every_field(plural: str) -> None:
    standard = {"", "apiVersion", "kind", "metadata"}
    silent = [
        path
        for path, node in nodes(schema(plural))
        if path not in standard and not path.endswith(("[]", "{}")) and not node.get("description")
    ]
    assert silent == []


@pytest.mark.parametrize("plural", ["gpureservations", "gpuclasses"])
def test_everything_in_a_schema_is_bounded(plural: str) -> None:
    bound = {"string": ("maxLength", "enum"), "array": ("maxItems",), "integer": ("format",)}
    loose = [
        path
        for path, node in nodes(schema(plural))
        if path not in {"apiVersion", "kind"} and not any(key in node for key in bound.get(node["type"], ("type",)))
    ]
    loose += [
        path for path, node in nodes(schema(plural)) if "additionalProperties" in node and "maxProperties" not in node
    ]
    assert loose == []


def test_the_rules_of_the_schema_name_the_phases_of_the_domain() -> None:
    text = (DEPLOY / "crds" / "gpureservations.yaml").read_text()
    named = {frozenset(re.findall(r"'(\w+)'", group)) for group in re.findall(r"phase in \[([^]]*)\]", text)}
    assert named == {frozenset(map(str, OPENABLE)), frozenset(map(str, TERMINAL))}


def columns(plural: str) -> list[Manifest]:
    crd = manifest("CustomResourceDefinition", f"{plural}.gpures.dev")
    found: list[Manifest] = crd["spec"]["versions"][0]["additionalPrinterColumns"]
    return found


@pytest.mark.parametrize(
    ("plural", "names"),
    [
        ("gpureservations", "CLASS USED WAITING PHASE START END REASON AGE GUARANTEED-UNTIL TYPE BY"),
        ("gpuclasses", "MODE NODES BOOKABLE RESERVED FREE BLOCK READY AGE"),
    ],
)
def test_the_columns_stand_in_their_order(plural: str, names: str) -> None:
    assert [column["name"].upper() for column in columns(plural)] == names.split()


@pytest.mark.parametrize("plural", ["gpureservations", "gpuclasses"])
def test_every_column_shows_a_field_that_is_there(plural: str) -> None:
    for column in columns(plural):
        path = re.sub(r"\[\?.*\]", ".[]", column["jsonPath"]).lstrip(".")
        if not path.startswith("metadata."):
            assert field(plural, path)["type"] == column["type"]


@pytest.mark.parametrize(
    ("plural", "kind", "short"), [("gpureservations", "GPUReservation", "gpures"), ("gpuclasses", "GPUClass", "gpuc")]
)
def test_the_kinds_have_the_names_of_the_domain(plural: str, kind: str, short: str) -> None:
    spec = manifest("CustomResourceDefinition", f"{plural}.gpures.dev")["spec"]
    assert (spec["group"], spec["versions"][0]["name"]) == (keys.GROUP, keys.VERSION)
    assert (spec["names"]["kind"], spec["names"]["shortNames"]) == (kind, [short])


# -------------------------------------------------------------------------------------- policies and registrations


POLICIES = [entry for entry in ALL if entry["kind"].endswith("AdmissionPolicy")]
ENTRIES = [entry for each in ALL if each["kind"].endswith("WebhookConfiguration") for entry in each["webhooks"]]


def on_pods(match: Mapping[str, Any]) -> bool:
    rules = match.get("rules") or match["resourceRules"]
    return any(resource.startswith("pods") for rule in rules for resource in rule["resources"])


def of_the_fence(entry: Mapping[str, Any]) -> bool:
    """The fence judges what becomes of stored objects; its own tests say where it looks."""
    return bool(entry["metadata"]["name"].startswith("gpures-fence"))


AT_CREATION = [policy["spec"]["matchConstraints"] for policy in POLICIES if not of_the_fence(policy)] + ENTRIES


def by_class(policy: Mapping[str, Any]) -> bool:
    return bool(policy["spec"].get("paramKind", {}).get("kind") == "GPUClass")


def test_the_same_namespaces_are_left_alone_everywhere() -> None:
    expected = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": LEFT_ALONE}
    found = [match["namespaceSelector"]["matchExpressions"] for match in AT_CREATION if on_pods(match)]
    assert len(found) >= 4
    assert all(expressions == [expected] for expressions in found)


def test_pods_are_judged_at_creation_only_but_by_the_fence() -> None:
    operations = [
        rule["operations"] for m in AT_CREATION if on_pods(m) for rule in m.get("rules") or m["resourceRules"]
    ]
    assert len(operations) >= 4
    assert all(each == ["CREATE"] for each in operations)


def test_a_policy_with_a_class_as_parameter_never_fails_closed() -> None:
    """After its start an API server does not know our kinds for up to 30 s: Fail would refuse every pod (measured)."""
    with_class = [policy["spec"]["failurePolicy"] for policy in POLICIES if by_class(policy)]
    assert len(with_class) >= 2
    assert set(with_class) == {"Ignore"}


def test_every_policy_is_bound_once() -> None:
    bindings = [entry for entry in ALL if entry["kind"].endswith("AdmissionPolicyBinding")]
    assert sorted(entry["spec"]["policyName"] for entry in bindings) == sorted(p["metadata"]["name"] for p in POLICIES)


def test_a_cluster_without_a_class_is_let_through() -> None:
    named = {policy["metadata"]["name"] for policy in POLICIES if by_class(policy)}
    bindings = [entry["spec"] for entry in ALL if entry["kind"].endswith("AdmissionPolicyBinding")]
    parameters = [spec["paramRef"] for spec in bindings if spec["policyName"] in named]
    assert len(parameters) == len(named)
    assert all(each == {"selector": {}, "parameterNotFoundAction": "Allow"} for each in parameters)


def test_the_hold_policy_writes_the_golden_text() -> None:
    expression = manifest("MutatingAdmissionPolicy", "gpures-hold")["spec"]["mutations"][0]["jsonPatch"]["expression"]
    assert UNDECIDED in expression
    assert UNDECIDED.startswith(Reason.UNDECIDED)


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("policies/hold.yaml", {keys.GATE, keys.HELD, keys.CLASS_LABEL}),
        ("policies/check.yaml", {keys.TAINT, keys.CLAIM, keys.CLASS_LABEL}),
        ("policies/fence-deletes.yaml", {keys.TAINT, keys.CLAIM, keys.GATE}),
        ("policies/reservations.yaml", {keys.CREATED_BY, keys.CHANGED_BY}),
        ("base/webhooks.yaml", {keys.TAINT, keys.CLAIM, keys.CLASS_LABEL, keys.GATE}),
    ],
)
def test_the_expressions_name_the_keys_of_the_domain(file: str, names: set[str]) -> None:
    text = (DEPLOY / file).read_text()
    assert {name for name in names if f"'{name}'" not in text} == set()


def test_the_entries_of_the_webhook_are_as_designed() -> None:
    shape = {
        entry["name"].partition(".")[0]: (
            entry["failurePolicy"],
            entry.get("reinvocationPolicy"),
            entry["sideEffects"],
            entry["clientConfig"]["service"]["path"],
        )
        for entry in ENTRIES
    }
    assert shape == {
        "guard": ("Fail", "Never", "None", "/mutate/guard"),
        "grant": ("Ignore", "Never", "NoneOnDryRun", "/mutate/grant"),
        "stamp": ("Ignore", "Never", "None", "/mutate/reservations"),
        "reservations": ("Ignore", None, "None", "/validate/reservations"),
        "owners": ("Ignore", None, "None", "/validate/owners"),
    }


def test_the_guard_is_asked_before_the_grant() -> None:
    assert [entry["name"] for entry in ENTRIES][:2] == ["guard.gpures.dev", "grant.gpures.dev"]


# ---------------------------------------------------------------------------------------------------------- rights


def test_no_role_of_ours_takes_everything() -> None:
    rules = [rule for entry in ALL if entry["kind"].endswith("Role") for rule in entry["rules"]]
    assert [rule for rule in rules if "*" in rule["verbs"] + rule["resources"] + rule["apiGroups"]] == []


def test_tenants_write_reservations_and_no_status() -> None:
    rules = (
        manifest("ClusterRole", "gpures-tenant-edit")["rules"] + manifest("ClusterRole", "gpures-tenant-view")["rules"]
    )
    assert {resource for rule in rules for resource in rule["resources"]} == {"gpureservations"}


def test_every_binding_gives_a_role_of_ours_to_ours() -> None:
    roles = {(entry["kind"], entry["metadata"]["name"]) for entry in ALL if entry["kind"].endswith("Role")}
    bindings = [entry for entry in ALL if entry["kind"].endswith("RoleBinding")]
    assert {(entry["roleRef"]["kind"], entry["roleRef"]["name"]) for entry in bindings} <= roles


@pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(DEPLOY)) for path in FILES])
def test_every_file_says_in_its_first_lines_why_it_is_there(path: Path) -> None:
    assert path.read_text().startswith("# ")
