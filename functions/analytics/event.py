"""The event: which job to start, and which call of a schedule this is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sulina.errors import Refused

JOBS: Final = {
    "audit": "ledger_audit",
    "compaction": "compaction",
    "statistics": "topic_statistics",
}
"""The job names used by schedules, and the modules in emr_jobs."""
ALL_TOPICS: Final = "/*"
_TEXTS: Final = ("job", "topic", "scheduled", "execution")


@dataclass(frozen=True, slots=True)
class JobCall:
    """One call."""

    job: str
    topic: str = ALL_TOPICS
    """A topic, a comma-separated list, or a pattern; by default all topics."""
    scheduled: datetime | None = None
    """The scheduled time of the call."""
    execution: str = ""
    """An id that is the same for all retries of a call."""
    arguments: tuple[str, ...] = ()
    """Additional arguments for the job."""


def parse_call(event: Mapping[str, Any]) -> JobCall:
    """Raises ``Refused`` for an invalid event."""
    given = dict(event)
    arguments = given.pop("arguments", [])
    wrong = [name for name, value in given.items() if name not in _TEXTS or type(value) is not str]
    if wrong or not isinstance(arguments, list) or not all(type(x) is str for x in arguments):
        raise Refused(
            f"the event may only have the strings {', '.join(_TEXTS)} and the list arguments"
        )
    job = given.get("job", "")
    if job not in JOBS:
        raise Refused(f"there is no job {job!r}: choose from {', '.join(JOBS)}")
    return JobCall(
        job,
        given.get("topic") or ALL_TOPICS,
        _time(given["scheduled"]) if given.get("scheduled") else None,
        given.get("execution", ""),
        tuple(arguments),
    )


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(
            f"scheduled is {text!r} but must be a time such as 2026-05-01T00:00:00Z"
        ) from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
