"""The function ``analytics``: starts a job on EMR Serverless unless it is already running.

Two concurrent calls may both find nothing running. After starting a run, a call therefore looks
again and cancels its own run if an older one of the same job is active: the oldest continues.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from functions.analytics.event import parse_call
from functions.analytics.request import request_for
from functions.shared.aws import client

_ACTIVE: Final = ["SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING"]
_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Start the event's job; returns the run, and whether this call started it.

    Raises ``Refused`` for an invalid event or environment; AWS errors propagate.
    """
    call = parse_call(event)
    request = request_for(call, str(getattr(context, "aws_request_id", "")))
    application, name = request["applicationId"], request["name"]
    emr = client("emr-serverless")
    for other in _active_runs(emr, application, name):
        return _not_started(call.job, other["id"])
    run = str(emr.start_job_run(**request)["jobRunId"])
    runs = sorted(
        _active_runs(emr, application, name), key=lambda each: (each["createdAt"], each["id"])
    )
    ids = [each["id"] for each in runs]
    if run in ids and ids[0] != run:
        emr.cancel_job_run(applicationId=application, jobRunId=run)
        return _not_started(call.job, ids[0])
    _log.info("started %s: %s", call.job, run)
    return {"job": call.job, "run": run, "started": True}


def _not_started(job: str, other: str) -> dict[str, Any]:
    _log.warning("%s was not started: its run %s is still active", job, other)
    return {"job": job, "run": other, "started": False}


def _active_runs(emr: Any, application: str, name: str) -> Iterator[dict[str, Any]]:
    pages = emr.get_paginator("list_job_runs").paginate(applicationId=application, states=_ACTIVE)
    for page in pages:
        yield from (each for each in page["jobRuns"] if each.get("name") == name)
