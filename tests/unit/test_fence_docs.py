"""The fence's table is large enough, and its page is what it says."""

from __future__ import annotations

import json

import yaml

from common.domain import keys
from tests.component import fence_docs
from tests.component.fence_table import ATTACKS, ELSEWHERE, FORMS, THREATS


def test_the_page_is_up_to_date() -> None:
    assert fence_docs.PAGE.read_text() == fence_docs.page(), "run: python -m tests.component.fence_docs"


def test_the_table_has_sixty_attacks_and_forty_forms() -> None:
    assert len(ATTACKS) >= 60
    assert len({json.dumps(form) for form in FORMS}) == len(FORMS) >= 40


def test_every_row_is_another_deed() -> None:
    assert len({(row.threat, row.deed) for row in ATTACKS}) == len(ATTACKS)


def test_every_threat_of_the_research_has_a_row_or_a_reason() -> None:
    wanted = {f"T{number}" for number in [*range(1, 18), 27, 28, 29]}
    assert {row.threat for row in ATTACKS} | set(ELSEWHERE) == wanted == set(THREATS) | set(ELSEWHERE)


def test_the_policies_know_every_key_that_only_we_write() -> None:
    for part in ("fence.yaml", "fence-ours.yaml"):
        text = (fence_docs.POLICIES / part).read_text()
        assert {key for key in keys.POD_OUTPUTS if f"'{key}'" not in text} == set()
        assert keys.RESERVATION_LABEL in text


POLICIES = [
    document
    for path in sorted(fence_docs.POLICIES.glob("fence*.yaml"))
    for document in yaml.safe_load_all(path.read_text())
    if document["kind"] == "ValidatingAdmissionPolicy"
]
LEFT_ALONE = ["kube-system", "kube-public", "kube-node-lease", "gpures-system"]


def test_the_fence_leaves_the_same_namespaces_alone_but_for_our_own_accounts() -> None:
    on_pods = [p for p in POLICIES if "" in p["spec"]["matchConstraints"]["resourceRules"][0]["apiGroups"]]
    looked = {p["metadata"]["name"]: p["spec"]["matchConstraints"].get("namespaceSelector") for p in on_pods}
    assert {looked.pop(f"gpures-fence-{part}") for part in ("ours", "deletes")} == {None}
    expected = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": LEFT_ALONE}
    assert all(selector == {"matchExpressions": [expected]} for selector in looked.values())


def test_what_cannot_be_judged_is_refused_but_a_sign_stops_nobody() -> None:
    lenient = {p["metadata"]["name"] for p in POLICIES if p["spec"]["failurePolicy"] != "Fail"}
    assert lenient == {"gpures-fence-unlabelled"}


def test_no_part_that_refuses_has_a_parameter_that_can_be_missing_or_unknown() -> None:
    kinds = {
        p["spec"].get("paramKind", {}).get("kind")
        for p in POLICIES
        if p["metadata"]["name"] != "gpures-fence-unlabelled"
    }
    assert kinds == {None, "ValidatingAdmissionPolicyBinding"}
