"""The request that starts a job: what every job is told about the lake, and what is its own."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from emr_jobs.submit import Run, job_request
from functions.analytics.event import JOBS, Asked
from functions.parts.environment import given, needed
from functions.parts.lake import parse_lake


def request_for(asked: Asked, fallback: str) -> dict[str, Any]:
    """StartJobRun's, checked against the service's model. Raises ``Refused`` if it can't be right.

    Repeats of a call give the same token, so that they start one run; ``fallback`` stands for the
    call where the event does not say which one it is.
    """
    call = asked.execution or (asked.scheduled.isoformat() if asked.scheduled else fallback)
    lake = parse_lake(needed("SULINA_LAKE"))
    source = (
        "--path",
        lake.url("").rstrip("/"),
        "--topic",
        asked.topic or given("SULINA_TOPICS", "/*"),
    )
    run = Run(
        job=JOBS[asked.job],
        application=needed("SULINA_EMR_APPLICATION"),
        role=needed("SULINA_JOB_ROLE"),
        artifacts=needed("SULINA_JOBS"),
        logs=given("SULINA_JOB_LOGS"),
        arguments=(*source, *_own(asked), *asked.arguments),
        # An audit that found something has failed; to find it three times is no better.
        attempts=1 if asked.job == "audit" else 3,
        token=hashlib.sha256(f"{asked.job} {call}".encode()).hexdigest()[:32] if call else "",
    )
    return job_request(run)


def _own(asked: Asked) -> tuple[str, ...]:
    tables = given("SULINA_TABLES").rstrip("/")
    if asked.job == "compaction":
        return ("--table", f"{needed('SULINA_TABLES').rstrip('/')}/records")
    if asked.job == "statistics" and asked.scheduled is not None:
        day = asked.scheduled.astimezone(UTC).date() - timedelta(days=1)
        span = ("--start-time", _midnight(day), "--end-time", _midnight(day + timedelta(days=1)))
        # The same day again writes the same place again.
        return (*span, "--output", f"{tables}/statistics/date={day}") if tables else span
    return ()


def _midnight(day: Any) -> str:
    return f"{datetime(day.year, day.month, day.day, tzinfo=UTC):%Y-%m-%dT%H:%M:%SZ}"
