"""Builds the request that starts a job: the arguments that all jobs share, and the job's own."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from typing import Any

from emr_jobs.submit import JobRun, job_request
from functions.analytics.event import ALL_TOPICS, JOBS, JobCall
from functions.shared.environment import optional, required
from functions.shared.lake import parse_lake


def request_for(call: JobCall, fallback: str) -> dict[str, Any]:
    """The StartJobRun request, checked against AWS's service model. Raises ``Refused``.

    All retries of a call have the same client token, so that they start one run; ``fallback``
    identifies the call if the event does not.
    """
    call_id = call.execution or (call.scheduled.isoformat() if call.scheduled else fallback)
    lake = parse_lake(required("SULINA_LAKE"))
    source = ["--path", lake.url("").rstrip("/"), "--topic", call.topic]
    if call.topic == ALL_TOPICS:
        source.append("--allow-empty")  # a new cluster has no topics; a named topic must exist
    run = JobRun(
        job=JOBS[call.job],
        application=required("SULINA_EMR_APPLICATION"),
        role=required("SULINA_JOB_ROLE"),
        artifacts=required("SULINA_JOBS"),
        logs=optional("SULINA_JOB_LOGS"),
        arguments=(*source, *_job_arguments(call), *call.arguments),
        # An audit fails if it finds something; retrying would find it again.
        attempts=1 if call.job == "audit" else 3,
        token=hashlib.sha256(f"{call.job} {call_id}".encode()).hexdigest()[:32] if call_id else "",
    )
    return job_request(run)


def _job_arguments(call: JobCall) -> tuple[str, ...]:
    tables = optional("SULINA_TABLES").rstrip("/")
    if call.job == "compaction":
        return ("--table", f"{required('SULINA_TABLES').rstrip('/')}/records")
    if call.job == "statistics" and call.scheduled is not None:
        day = call.scheduled.astimezone(UTC).date() - timedelta(days=1)
        span = ("--start-time", _midnight(day), "--end-time", _midnight(day + timedelta(days=1)))
        # A second run for the same day overwrites the first one's output.
        return (*span, "--output", f"{tables}/statistics/date={day}") if tables else span
    return ()


def _midnight(day: Any) -> str:
    return f"{datetime(day.year, day.month, day.day, tzinfo=UTC):%Y-%m-%dT%H:%M:%SZ}"
