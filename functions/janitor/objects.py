"""Finds orphans: objects in the lake that no topic refers to.

An object is an orphan if it is old enough, its key is that of a ledger's object, and the brokers
report that its topic does not have the ledger, or does not exist. An object that a newer one
replaced is none: brokers keep it for a while, and delete it themselves. If the brokers cannot be
queried, the topic is skipped. Objects with other keys are reported as foreign and never deleted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from functions.janitor.settings import JanitorSettings
from functions.shared.cluster import ClusterClient
from sulina.errors import NotFound, Refused, Unavailable
from sulina.lake.generations import newest_objects
from sulina.lake.layout import ObjectName, is_notice, parse_key

ORPHAN_AGE: Final = timedelta(days=7)
"""An object younger than this is never an orphan."""
UPLOAD_AGE: Final = timedelta(days=1)
"""An upload older than this is abandoned."""
_LIMIT: Final = 10_000
"""The maximum number of orphans, and of foreign keys, of one call; bounds its memory."""


@dataclass(frozen=True, slots=True)
class TopicPartition:
    """Whose objects are adjacent in a listing."""

    namespace: str
    topic: str
    number: int

    def __str__(self) -> str:
        return f"/{self.namespace}/{self.topic}, partition {self.number}"


@dataclass(frozen=True, slots=True)
class LedgerObject:
    """An object in the lake."""

    key: str
    """Its key in the bucket."""
    name: ObjectName
    modified: datetime

    @property
    def partition(self) -> TopicPartition:
        return TopicPartition(self.name.namespace, self.name.topic, self.name.partition)


@dataclass(slots=True)
class LakeSurvey:
    """What was found in the lake."""

    objects: int = 0
    orphans: list[LedgerObject] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    """Partitions whose ledgers the brokers did not report."""
    complete: bool = True
    """Whether all objects were examined."""


def survey(
    s3: Any,
    cluster: ClusterClient,
    settings: JanitorSettings,
    now: datetime,
    in_time: Callable[[], bool],
) -> LakeSurvey:
    """Examine all objects, or those that it can before ``in_time`` returns False."""
    seen = LakeSurvey()
    old = now - ORPHAN_AGE
    listed = _objects(s3, settings, seen)
    for partition, group in groupby(listed, key=lambda found: found.partition):
        present = list(group)
        seen.objects += len(present)
        # Brokers delete what was replaced, when its time is over.
        newest = newest_objects(present, lambda found: found.name)
        aged = [found for found in newest if found.modified < old]
        if aged:
            try:
                known = ledgers_of(cluster, partition)
            except Unavailable as error:
                seen.unknown.append(f"{partition}: {error}")
                continue
            seen.orphans += [found for found in aged if found.name.ledger not in known]
        if not in_time() or len(seen.orphans) > _LIMIT:
            seen.complete = False
            break
    return seen


def _objects(s3: Any, settings: JanitorSettings, seen: LakeSurvey) -> Iterator[LedgerObject]:
    """All objects in the order of their keys, so that a partition's objects are adjacent."""
    lake = settings.lake
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=lake.bucket, Prefix=lake.ledgers)
    for page in pages:
        for entry in page.get("Contents", ()):
            key = entry["Key"]
            try:
                name = parse_key(lake.relative(key))
            except Refused:
                if not is_notice(key) and len(seen.foreign) < _LIMIT:
                    seen.foreign.append(key)
                continue
            yield LedgerObject(key, name, entry["LastModified"])


def delete_orphans(
    s3: Any, cluster: ClusterClient, settings: JanitorSettings, orphans: list[LedgerObject]
) -> int:
    """Query the brokers again and delete those that are still orphans; returns how many."""
    deleted = 0
    for partition, group in groupby(orphans, key=lambda found: found.partition):
        try:
            known = ledgers_of(cluster, partition)
        except Unavailable:
            continue
        for found in group:
            if found.name.ledger not in known:
                s3.delete_object(Bucket=settings.lake.bucket, Key=found.key)
                deleted += 1
    return deleted


def abort_uploads(s3: Any, settings: JanitorSettings, now: datetime) -> int:
    """Abort abandoned uploads, which deletes their parts; returns how many."""
    lake = settings.lake
    old = now - UPLOAD_AGE
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=lake.bucket, Prefix=lake.ledgers
    )
    aborted = 0
    for page in pages:
        for upload in page.get("Uploads", ()):
            if upload["Initiated"] < old:
                s3.abort_multipart_upload(
                    Bucket=lake.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
                aborted += 1
    return aborted


def ledgers_of(cluster: ClusterClient, name: TopicPartition) -> frozenset[int]:
    """The ledgers of a topic's partition, as brokers report them; none if it does not exist.

    Raises ``Unavailable`` if the brokers give no definite answer.
    """
    topics = [f"{name.topic}-part-{name.number}"]
    if name.number == 0:
        topics.append(name.topic)  # the topic may not be partitioned
    found: set[int] = set()
    for topic in topics:
        try:
            answer = cluster.get(f"/api/v1/topics/{name.namespace}/{topic}/ledgers")
        except NotFound:
            continue
        found |= {int(each["id"]) for each in answer["ledgers"]}
    return frozenset(found)
