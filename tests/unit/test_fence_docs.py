"""The fence's table is large enough, and its page is what it says."""

from __future__ import annotations

import json

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
