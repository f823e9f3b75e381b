"""Log lines."""

import errno
import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from common.adapters import logs


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Logging as a process configures it, undone afterwards."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    logs.configure("info", stream)
    yield stream
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    root.handlers[:] = handlers
    root.setLevel(level)


class Full(io.StringIO):
    """A disk that is full, or a reader that has gone."""

    def write(self, _text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    def flush(self) -> None:
        self.write("")


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_one_object_per_line_with_a_stable_event(stream: io.StringIO) -> None:
    log = structlog.get_logger()
    log.info("claim.stored", units=2)
    log.debug("claim.detail")
    (entry,) = lines(stream)
    assert entry.pop("time").endswith("Z")
    assert entry == {"event": "claim.stored", "level": "info", "units": 2}


def test_records_of_the_standard_library_join(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.error").warning("%d left", 3)
    (entry,) = lines(stream)
    assert (entry["event"], entry["logger"], entry["level"]) == ("3 left", "uvicorn.error", "warning")


def test_exceptions_are_one_field_without_local_variables(stream: io.StringIO) -> None:
    password = "hunter2"  # noqa: F841
    try:
        int("x")
    except ValueError:
        structlog.get_logger().exception("loop.failed")
    (entry,) = lines(stream)
    assert "ValueError" in entry["exception"]
    assert "hunter2" not in stream.getvalue()


def test_credentials_are_hidden_at_any_depth(stream: io.StringIO) -> None:
    structlog.get_logger().info(
        "api.request",
        token="hush",
        headers={"Authorization": "Bearer hush", "Accept": "json", "inner": [{"client-secret": "hush"}]},
        access_token="hush",
        tokens=3,
    )
    (entry,) = lines(stream)
    assert "hush" not in stream.getvalue()
    assert entry["headers"]["Accept"] == "json"
    assert entry["tokens"] == 3


def test_what_json_does_not_know_is_still_logged(stream: io.StringIO) -> None:
    structlog.contextvars.bind_contextvars(review="r1")
    structlog.get_logger().info("odd", value=object)
    (entry,) = lines(stream)
    assert "object" in entry["value"]
    assert entry["review"] == "r1"


@pytest.mark.usefixtures("stream")
def test_what_cannot_be_written_is_lost_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info", Full())
    structlog.get_logger().critical("supervise.task_died")
    logging.getLogger("uvicorn.error").warning("cannot be said")
    assert capsys.readouterr().err == "", "nor does logging complain on stderr, which is what cannot be written"
