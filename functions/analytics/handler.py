"""The function ``analytics``: starts a job on EMR Serverless, unless it runs already.

Two calls at the same moment may both find nothing running. So whoever has started a run looks
again, and cancels it if an older one of the same job is under way: the oldest goes on.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

from functions.analytics.event import asked
from functions.analytics.request import request_for
from functions.parts.aws import client

_UNDER_WAY: Final = ["SUBMITTED", "PENDING", "SCHEDULED", "QUEUED", "RUNNING"]
_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Start what the event asks for; returns the run, and whether this call started it.

    Raises ``Refused`` for an event or settings that make no sense; errors of AWS as they are.
    """
    wanted = asked(event)
    request = request_for(wanted, str(getattr(context, "aws_request_id", "")))
    application, name = request["applicationId"], request["name"]
    emr = client("emr-serverless")
    for other in _under_way(emr, application, name):
        return _refused(wanted.job, other["id"])
    run = str(emr.start_job_run(**request)["jobRunId"])
    runs = sorted(
        _under_way(emr, application, name), key=lambda each: (each["createdAt"], each["id"])
    )
    present = [each["id"] for each in runs]
    if run in present and present[0] != run:
        emr.cancel_job_run(applicationId=application, jobRunId=run)
        return _refused(wanted.job, present[0])
    _log.info("started %s: %s", wanted.job, run)
    return {"job": wanted.job, "run": run, "started": True}


def _refused(job: str, other: str) -> dict[str, Any]:
    _log.warning("%s was not started: %s is still under way", job, other)
    return {"job": job, "run": other, "started": False}


def _under_way(emr: Any, application: str, name: str) -> Iterator[dict[str, Any]]:
    pages = emr.get_paginator("list_job_runs").paginate(
        applicationId=application, states=_UNDER_WAY
    )
    for page in pages:
        yield from (each for each in page["jobRuns"] if each.get("name") == name)
