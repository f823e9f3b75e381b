"""Tokens say when they were minted and for how many units; what we never wrote is none."""

from datetime import timedelta

import pytest

from common.domain import tokens
from tests.support.builders import NINE, a_pod


def test_a_minted_token_reads_back() -> None:
    parts = tokens.parse(tokens.mint(NINE + timedelta(milliseconds=999), 2, "9f3c"))
    assert parts == tokens.TokenParts(NINE, 2, "9f3c")


def test_the_token_of_a_stored_pod_is_the_same_at_every_attempt() -> None:
    pod = a_pod(uid="5f0c-11-22")
    assert tokens.for_pod(pod, 2) == tokens.for_pod(pod, 2)
    assert tokens.parse(tokens.for_pod(pod, 2)) == tokens.TokenParts(NINE, 2, "5f0c-11-22")


@pytest.mark.parametrize(
    "text", ["", "x", "1-2", "1-2-", "-1-2-x", "a-2-x", "1-b-x", "²-1-x", "1-²-x", "99999999999999999999-1-x", "1--x"]
)
def test_what_we_never_wrote_is_no_token(text: str) -> None:
    assert tokens.parse(text) is None
