"""The function ``janitor``: tidies the lake, and says what it saw.

It ends uploads that nobody ends, deletes objects that no topic knows (if it may, and only when
certain), forgets partitions of the catalog that have no objects any more, and asks for an audit,
once a day, when something is strange. Retention itself is the brokers': they delete the objects of
ledgers that are too old.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from functions.janitor.objects import Survey, abort_uploads, delete_orphans, survey
from functions.janitor.settings import Settings, settings_of, table
from functions.parts.aws import client
from functions.parts.cluster import cluster
from functions.parts.environment import given, needed
from functions.parts.lake import Lake
from functions.parts.partitions import Partitions
from sulina.runtime.real_clock import RealClock

_RESERVE_MS: Final = 60_000
"""With less time left, no further topic is looked at."""
_SHOWN: Final = 20
_log = logging.getLogger(__name__)


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Tidy once; returns what was done. Raises ``Refused`` for settings that make no sense."""
    now = datetime.fromtimestamp(RealClock().wall_us() / 1e6, UTC)
    settings = settings_of(event, now.isoformat())
    s3 = client("s3")
    asked = cluster()
    ended = abort_uploads(s3, settings, now)
    seen = survey(s3, asked, settings, now, _in_time(context))
    strange = too_many(seen, settings)
    deleted = 0
    if settings.delete and not strange:
        deleted = delete_orphans(s3, asked, settings, seen.orphans)
    forgotten = _forget_empty(s3, seen, settings.lake)
    audit = settings.audit or bool(seen.orphans or seen.foreign)
    report = {
        "objects": seen.objects,
        "whole": seen.whole,
        "uploads_ended": ended,
        "orphans": len(seen.orphans),
        "orphans_deleted": deleted,
        "too_many_orphans": strange,
        "foreign": len(seen.foreign),
        "unsure": len(seen.unsure),
        "partitions_forgotten": forgotten,
        "audit": _ask_for_audit(settings) if audit else None,
    }
    examples = {
        "orphans": [found.key for found in seen.orphans[:_SHOWN]],
        "foreign": seen.foreign[:_SHOWN],
        "unsure": seen.unsure[:_SHOWN],
    }
    level = logging.ERROR if strange else logging.WARNING if audit else logging.INFO
    _log.log(level, "%s", json.dumps({**report, "examples": examples}))
    return report


def too_many(seen: Survey, settings: Settings) -> bool:
    """Whether there are more orphans than there should ever be.

    A cluster that lost its metadata, or another cluster's lake, looks as if nothing was known.
    """
    return len(seen.orphans) * 100 > settings.most_percent * max(seen.objects, 1)


def _in_time(context: Any) -> Callable[[], bool]:
    left = getattr(context, "get_remaining_time_in_millis", None)
    return lambda: left is None or left() > _RESERVE_MS


def _forget_empty(s3: Any, seen: Survey, lake: Lake) -> int:
    """Forget partitions without objects; returns how many."""
    known = table()
    if known is None or not seen.whole:
        return 0
    partitions = Partitions(client("glue"), known.database, known.name, lake)
    forgotten = 0
    for each in [name for name in partitions.all() if name not in seen.partitions]:
        if _empty(s3, lake, each.folder):
            partitions.remove(each)
            forgotten += 1
            if not _empty(s3, lake, each.folder):
                # An object came in between, and its own call may have found the partition there.
                partitions.add(each)
                forgotten -= 1
    return forgotten


def _empty(s3: Any, lake: Lake, folder: str) -> bool:
    found = s3.list_objects_v2(Bucket=lake.bucket, Prefix=lake.prefix + folder, MaxKeys=1)
    return not found.get("Contents")


def _ask_for_audit(settings: Settings) -> str | None:
    """Call the function that starts jobs, for the same day always with the same words."""
    if not given("SULINA_ANALYTICS"):
        return None
    event = {"job": "audit", "execution": f"janitor-{settings.day}"}
    client("lambda").invoke(
        FunctionName=needed("SULINA_ANALYTICS"),
        InvocationType="Event",
        Payload=json.dumps(event).encode(),
    )
    return event["execution"]
