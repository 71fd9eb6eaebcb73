"""What the function is asked: which job, and which call of a schedule it is."""

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
"""The jobs by the names that schedules use, and as emr_jobs has them."""
_TEXTS: Final = ("job", "topic", "scheduled", "execution")


@dataclass(frozen=True, slots=True)
class Asked:
    """One call."""

    job: str
    topic: str = ""
    """A topic, several divided by commas, or a pattern; what the environment says if empty."""
    scheduled: datetime | None = None
    """For when it was meant."""
    execution: str = ""
    """The same for all repeats of a call."""
    arguments: tuple[str, ...] = ()
    """Further ones, for the job."""


def asked(event: Mapping[str, Any]) -> Asked:
    """Raises ``Refused`` for an event that makes no sense."""
    given = dict(event)
    arguments = given.pop("arguments", [])
    wrong = [name for name, value in given.items() if name not in _TEXTS or type(value) is not str]
    if wrong or not isinstance(arguments, list) or not all(type(x) is str for x in arguments):
        raise Refused(f"the event may have the texts {', '.join(_TEXTS)} and a list, arguments")
    job = given.get("job", "")
    if job not in JOBS:
        raise Refused(f"there is no job {job!r}: choose from {', '.join(JOBS)}")
    return Asked(
        job,
        given.get("topic", ""),
        _time(given["scheduled"]) if given.get("scheduled") else None,
        given.get("execution", ""),
        tuple(arguments),
    )


def _time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"scheduled is {text!r} and should read 2026-05-01T00:00:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
