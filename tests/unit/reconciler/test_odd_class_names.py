"""Reservations may ask for any class, in words that no object can be called and that mean something in a path."""

import pytest

from tests.unit.reconciler.stage import Stage

ODD = (
    ".",
    "..",
    "h100/",
    "h100/status",
    "../gpuclasses/h100",
    "..%2fh100",
    "h100%3F",
    "//evil.example/x",
    "%zz",
    "a b",
)


@pytest.mark.parametrize("asked", ODD)
async def test_a_class_that_cannot_exist_is_denied_and_never_asked_for(asked: str) -> None:
    stage = Stage()
    stage.book(gpuClass=asked)
    await stage.settle()
    assert stage.phase() == "Denied"
    assert stage.reservation()["status"]["message"].startswith(f'no class "{asked}"')
    assert [path for method, path, _ in stage.kube.requests if method == "GET" and "gpuclasses" in path] == []


@pytest.mark.parametrize("asked", ["a100", "a.100-b", "0"])
async def test_a_class_that_may_exist_is_asked_for_before_anybody_is_denied(asked: str) -> None:
    stage = Stage()
    stage.book(gpuClass=asked)
    await stage.settle()
    assert stage.phase() == "Denied"
    assert ("GET", f"/apis/gpures.dev/v1alpha1/gpuclasses/{asked}", None) in stage.kube.requests
