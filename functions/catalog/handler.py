"""The function ``catalog``: brings the Iceberg tables of topics up to date with their objects.

S3 calls it for new objects, with any number of calls at once. A schedule calls it for all topics:
that adds objects whose events were lost, removes what retention deleted, and forgets old snapshots.
What is committed is decided by :mod:`sulina.tables` alone, so a repeated, late or missing call
changes nothing but the time at which an object is added.

If the catalog or S3 fails, the call fails after it has tried all topics, and Lambda retries it. A
problem that a retry cannot solve is logged, and the other topics go on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final
from zlib import crc32

from botocore.exceptions import BotoCoreError, ClientError

from functions.catalog.event import ScheduledCall, call_of
from functions.shared.environment import optional, required
from functions.shared.metrics import publish
from functions.shared.remaining_time import in_time
from sulina.errors import CorruptEntry, NotFound, Refused, Unavailable
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from sulina.tables.catalogs import open_catalog
from sulina.tables.objects import Lake, LakePlace
from sulina.tables.tables import Tables

_OBJECTS: Final = 200
"""Of one commit, which takes seconds and reads as many footers."""
_DAY_US: Final = 86_400_000_000
_METRICS: Final = {
    "commits": "TableCommits",
    "conflicts": "TableConflicts",
    "records": "TableRecords",
    "gaps": "TableGaps",
}
"""In CloudWatch, by their names in the report; a call without any of them publishes nothing."""
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class CatalogReport:
    """What a call did: the function's result."""

    topics: int = 0
    commits: int = 0
    objects: int = 0
    records: int = 0
    conflicts: int = 0
    expired: int = 0
    gaps: int = 0
    complete: bool = True
    """False if the time ran out; later calls continue."""
    refused: list[str] = field(default_factory=list)
    """Keys and topics that a retry does not help, with the reason in the log."""


def handler(event: Mapping[str, Any], context: Any) -> dict[str, Any]:
    """Bring the tables up to date that an event concerns; returns the report.

    Raises ``Unavailable`` if the catalog or S3 failed, ``Refused`` for other events.
    """
    tables = _tables(
        required("SULINA_LAKE"),
        optional("SULINA_CATALOG", "glue:"),
        required("SULINA_DATABASE"),
    )
    report = CatalogReport()
    may_go_on = in_time(context)
    called = call_of(event, required("SULINA_LAKE"), report.refused)
    if not isinstance(called, ScheduledCall):
        _commit(tables, called, report, may_go_on)
        return _shown(report)
    before_us = RealClock().wall_us() - int(optional("SULINA_SNAPSHOT_DAYS", "7")) * _DAY_US
    topics = _all_topics(tables, called.execution)
    try:
        _commit(tables, topics, report, may_go_on)
    finally:
        for topic in topics:
            if may_go_on():
                report.expired += _expire(tables, topic, before_us)
    return _shown(report)


@cache
def _tables(lake: str, catalog: str, database: str) -> Tables:
    place = LakePlace.parse(lake)
    return Tables(Lake(place), open_catalog(catalog, place), database)


def _all_topics(tables: Tables, execution: str) -> list[TopicName]:
    """Those with objects, and those whose objects are all deleted but still in a table.

    Each call begins with another one, so that calls whose time runs out get to all of them.
    """
    try:
        topics = list(tables.to_update())
    except NotFound:  # nothing was tiered yet
        topics = []
    start = crc32(execution.encode()) % max(len(topics), 1)
    return topics[start:] + topics[:start]


def _commit(
    tables: Tables,
    topics: Iterable[TopicName],
    report: CatalogReport,
    may_go_on: Callable[[], bool],
) -> None:
    """Raises ``Unavailable``, after all topics, with the first reason."""
    failed: list[str] = []
    for topic in topics:
        if not may_go_on():
            report.complete = False
            break
        try:
            done = tables.backfill(topic, _OBJECTS, may_go_on)
        except Unavailable as error:
            failed.append(f"{topic}: {error}")
            continue
        except (CorruptEntry, Refused) as error:
            _log.error("the table of %s is not up to date: %s", topic, error)
            report.refused.append(str(topic))
            continue
        report.topics += 1
        report.commits += done.commits
        report.objects += done.objects
        report.records += done.records
        report.conflicts += done.conflicts
        report.gaps += len(done.gaps)
        report.complete &= done.complete
        for gap in done.gaps:
            _log.warning(
                "%s lacks the offsets %d to %d of partition %d, and waits for their object",
                *(topic, gap.first, gap.end - 1, gap.partition),
            )
    if failed:
        raise Unavailable(f"{len(failed)} tables are not up to date; {failed[0]}")


def _expire(tables: Tables, topic: TopicName, before_us: int) -> int:
    try:
        return tables.expire(topic, before_us)
    except NotFound:
        return 0
    except (Refused, Unavailable) as error:  # the next call does it
        _log.warning("old snapshots of %s stay: %s", topic, error)
        return 0


def _shown(report: CatalogReport) -> dict[str, Any]:
    result = {name: getattr(report, name) for name in CatalogReport.__slots__}
    _log.info("%s", result)
    counts = {metric: float(result[name]) for name, metric in _METRICS.items()}
    if any(counts.values()):
        try:
            publish(counts)
        except (BotoCoreError, ClientError) as error:  # what was committed stays
            _log.warning("the metrics were not published: %s", error)
    return result
