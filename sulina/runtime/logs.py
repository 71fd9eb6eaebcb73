"""The log of a process on standard error: one line per message, as text or as JSON.

Text is for people, JSON for programs that collect logs. Both have the same fields: what
``logged_with`` adds while a request is served (its id, its operation, its trace), the process's
own name, and the topic that a message names.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final

from sulina.runtime.terminal import LINE_ESCAPES

TEXT, JSON = "text", "json"
LEVELS: Final = ("debug", "info", "warning", "error")
PACKAGES: Final = ("sulina", "broker_containers", "storage_grpc")
"""A level that is changed while a process runs applies to these; libraries keep theirs."""
FORMATS: Final = (TEXT, JSON)
_TOPIC: Final = re.compile(r"/[\w-]+/[\w-]+")
_REQUEST_ID: Final = re.compile(r"[\w.:-]{1,64}")
_TRACE_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_SAMPLED: Final = 1
_FIELDS: Final[ContextVar[Mapping[str, str]]] = ContextVar(
    "log_fields", default=MappingProxyType({})
)


@contextmanager
def logged_with(**fields: str) -> Iterator[None]:
    """Add fields to everything that this task, and tasks it starts, log meanwhile."""
    before = _FIELDS.set({**_FIELDS.get(), **fields})
    try:
        yield
    finally:
        _FIELDS.reset(before)


def log_fields() -> Mapping[str, str]:
    """The fields that are added now."""
    return _FIELDS.get()


def request_id(sent: str) -> str:
    """The id that a caller gave its request; empty if it gave none that can be used."""
    return sent if _REQUEST_ID.fullmatch(sent) else ""


def trace_id(trace_parent: str) -> str:
    """The trace of a W3C ``traceparent``; empty if there is none."""
    found = _TRACE_PARENT.fullmatch(trace_parent)
    return found[1] if found else ""


def sampled_trace(trace_parent: str) -> str:
    """The trace of a W3C ``traceparent`` whose sender records it; empty if there is none."""
    found = _TRACE_PARENT.fullmatch(trace_parent)
    return found[1] if found and int(found[3], 16) & _SAMPLED else ""


class TextLines(logging.Formatter):
    """Escapes line ends and control characters, so that a name cannot add lines to the log."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        line = super().formatMessage(record)
        added = " ".join(f"{name}={value}" for name, value in _FIELDS.get().items())
        return (
            f"{line} [{added}]".translate(LINE_ESCAPES) if added else line.translate(LINE_ESCAPES)
        )


class JsonLines(logging.Formatter):
    """One object per message; a traceback is its field ``error``."""

    def __init__(self, identity: Mapping[str, str]) -> None:
        super().__init__()
        self._identity = identity

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        fields = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._identity,
            **_topic(record),
            **_FIELDS.get(),
        }
        if record.exc_info:
            fields["error"] = self.formatException(record.exc_info)
        return json.dumps(fields)


def _topic(record: logging.LogRecord) -> dict[str, str]:
    for each in record.args if isinstance(record.args, tuple) else ():
        if _TOPIC.fullmatch(text := str(each)):
            return {"topic": text}
    return {}


def log_level_now() -> str:
    """The level the process was started with: call it before any change is applied."""
    level = logging.getLevelName(logging.getLogger().getEffectiveLevel()).lower()
    return level if level in LEVELS else "warning"


def apply_log_level(level: str, started_with: str) -> None:
    """Set the log level of our packages; ``started_with`` restores the process's own setup."""
    wanted = logging.NOTSET if level == started_with else logging.getLevelName(level.upper())
    for package in PACKAGES:
        logging.getLogger(package).setLevel(wanted)


def start_logging(level: str, form: str = TEXT, **identity: str) -> None:
    """Log to standard error; ``identity`` says in JSON which process it is."""
    logging.basicConfig(level=level.upper())
    lines = JsonLines(identity) if form == JSON else TextLines()
    for handler in logging.getLogger().handlers:
        handler.setFormatter(lines)


@dataclass(frozen=True, slots=True)
class LogSetup:
    """How a process logs, for a child that logs the same way."""

    level: int
    lines: TextLines | JsonLines

    @classmethod
    def of_this_process(cls) -> LogSetup:
        """The setup of ``start_logging``; text if something else was set up."""
        root = logging.getLogger()
        ours = (each.formatter for each in root.handlers)
        lines = (each for each in ours if isinstance(each, TextLines | JsonLines))
        return cls(root.getEffectiveLevel(), next(lines, TextLines()))

    def apply(self) -> None:
        """Log to standard error in this way."""
        logging.basicConfig(level=self.level)
        for handler in logging.getLogger().handlers:
            handler.setFormatter(self.lines)
