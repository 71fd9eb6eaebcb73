"""The function ``janitor``: cleans up the lake and reports what it found.

It aborts abandoned uploads, deletes orphans (objects that no topic refers to) if it is configured
to, and starts an audit, at most once per day, if it found orphans or foreign objects. It does not
apply retention: brokers delete the objects of expired ledgers.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from functions.janitor.objects import LakeSurvey, abort_uploads, delete_orphans, survey
from functions.janitor.settings import JanitorSettings, settings_of
from functions.shared.aws import client
from functions.shared.cluster import cluster
from functions.shared.environment import optional, required
from functions.shared.remaining_time import in_time
from sulina.runtime.real_clock import RealClock

_SHOWN: Final = 20
_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Clean up once; returns the report. Raises ``Refused`` for an invalid event or environment."""
    now = datetime.fromtimestamp(RealClock().wall_us() / 1e6, UTC)
    settings = settings_of(event, now.isoformat())
    s3 = client("s3")
    brokers = cluster()
    aborted = abort_uploads(s3, settings, now)
    seen = survey(s3, brokers, settings, now, in_time(context))
    suspicious = too_many(seen, settings)
    deleted = 0
    if settings.delete and not suspicious:
        deleted = delete_orphans(s3, brokers, settings, seen.orphans)
    audit = settings.audit or bool(seen.orphans or seen.foreign)
    report = {
        "objects": seen.objects,
        "complete": seen.complete,
        "uploads_aborted": aborted,
        "orphans": len(seen.orphans),
        "orphans_deleted": deleted,
        "too_many_orphans": suspicious,
        "foreign": len(seen.foreign),
        "unknown": len(seen.unknown),
        "audit": _start_audit(settings) if audit else None,
    }
    examples = {
        "orphans": [found.key for found in seen.orphans[:_SHOWN]],
        "foreign": seen.foreign[:_SHOWN],
        "unknown": seen.unknown[:_SHOWN],
    }
    level = logging.ERROR if suspicious else logging.WARNING if audit else logging.INFO
    _log.log(level, "%s", json.dumps({**report, "examples": examples}))
    return report


def too_many(seen: LakeSurvey, settings: JanitorSettings) -> bool:
    """Whether there are more orphans than plausible.

    After a loss of metadata, or with another cluster's lake, every object looks like an orphan.
    """
    return len(seen.orphans) * 100 > settings.max_percent * max(seen.objects, 1)


def _start_audit(settings: JanitorSettings) -> str | None:
    """Call ``analytics``; all calls of one day have the same id, so they start one run."""
    if not optional("SULINA_ANALYTICS"):
        return None
    event = {"job": "audit", "execution": f"janitor-{settings.day}"}
    client("lambda").invoke(
        FunctionName=required("SULINA_ANALYTICS"),
        InvocationType="Event",
        Payload=json.dumps(event).encode(),
    )
    return event["execution"]
