"""Log lines: one JSON object per line on stderr, with a stable `event`; records of the standard library join them."""

import logging
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import IO, Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_SECRET: Final = ("token", "authorization", "secret", "password")
_HIDDEN: Final = "[hidden]"
_DEPTH = 4


def configure(level: str = "info", stream: IO[str] | None = None) -> None:
    """Call once, first thing in a process; `level` is a name such as `debug`."""
    lines = Lossy(stream or sys.stderr)
    threshold = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        redact,
    ]
    render: Processor = structlog.processors.JSONRenderer(default=str)
    structlog.configure(
        processors=[*shared, render],
        wrapper_class=structlog.make_filtering_bound_logger(threshold),
        logger_factory=structlog.WriteLoggerFactory(lines),  # type: ignore[arg-type]  # asks for a TextIO
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, render],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(threshold)


class Lossy:
    """A stream that loses what it cannot write: no full disk and no reader that has gone stops what is logged about."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        with suppress(OSError, ValueError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def redact(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """Hide values whose key says that they are credentials (`token`, `access_token`, `Authorization`), at any depth."""
    return {key: _redacted(key, value, _DEPTH) for key, value in event.items()}


def _redacted(key: str, value: object, depth: int) -> object:
    if key.lower().replace("-", "_").endswith(_SECRET):
        return _HIDDEN
    if isinstance(value, Mapping) and depth:
        return {inner: _redacted(str(inner), item, depth - 1) for inner, item in value.items()}
    if isinstance(value, list | tuple) and depth:
        return [_redacted("", item, depth - 1) for item in value]
    return value
