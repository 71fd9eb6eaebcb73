"""Looks through the objects of the lake for those that no topic knows.

An object is an orphan if it is old enough, its key is a ledger's, and the brokers say that its
topic does not have that ledger, or that there is no such topic. If the brokers can't be asked, its
topic is left alone. Objects with other keys are told, and never touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Final

from functions.janitor.references import ledgers_of
from functions.janitor.settings import Settings
from functions.parts.cluster import Cluster
from functions.parts.partitions import PartitionName
from sulina.errors import Refused, Unavailable
from sulina.lake.layout import ObjectName, parse_key

_MOST_TOLD: Final = 10_000
"""Orphans, and foreign keys, of one call; there are no more in mind at once."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object of a ledger."""

    key: str
    """In the bucket."""
    name: ObjectName
    modified: datetime

    @property
    def partition(self) -> PartitionName:
        return PartitionName.of(self.name)


@dataclass(slots=True)
class Survey:
    """What was seen."""

    objects: int = 0
    orphans: list[Found] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    """Partitions of topics about which the brokers said nothing."""
    partitions: set[PartitionName] = field(default_factory=set)
    whole: bool = True
    """Whether all objects were looked at."""


def survey(
    s3: Any, cluster: Cluster, settings: Settings, now: datetime, in_time: Callable[[], bool]
) -> Survey:
    """Look at all objects, until ``in_time`` says that there is no more time."""
    seen = Survey()
    old = now - timedelta(hours=settings.orphan_hours)
    listed = _objects(s3, settings, seen)
    for partition, group in groupby(listed, key=lambda found: found.partition):
        seen.partitions.add(partition)
        present = list(group)
        seen.objects += len(present)
        aged = [found for found in present if found.modified < old]
        if aged:
            try:
                known = ledgers_of(cluster, partition)
            except Unavailable as error:
                seen.unsure.append(f"{partition.folder}: {error}")
                continue
            seen.orphans += [found for found in aged if found.name.ledger not in known]
        if not in_time() or len(seen.orphans) > _MOST_TOLD:
            seen.whole = False
            break
    return seen


def _objects(s3: Any, settings: Settings, seen: Survey) -> Iterator[Found]:
    """In the order of their keys, so those of a partition come together."""
    lake = settings.lake
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=lake.bucket, Prefix=lake.ledgers)
    for page in pages:
        for entry in page.get("Contents", ()):
            key = entry["Key"]
            try:
                name = parse_key(lake.relative(key))
            except Refused:
                if len(seen.foreign) < _MOST_TOLD:
                    seen.foreign.append(key)
                continue
            yield Found(key, name, entry["LastModified"])


def delete_orphans(s3: Any, cluster: Cluster, settings: Settings, orphans: list[Found]) -> int:
    """Delete those of which the brokers, asked once more, still know nothing; returns how many."""
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


def abort_uploads(s3: Any, settings: Settings, now: datetime) -> int:
    """End uploads that began long ago; returns how many. What they had sent is given back."""
    lake = settings.lake
    old = now - timedelta(hours=settings.upload_hours)
    pages = s3.get_paginator("list_multipart_uploads").paginate(
        Bucket=lake.bucket, Prefix=lake.ledgers
    )
    ended = 0
    for page in pages:
        for upload in page.get("Uploads", ()):
            if upload["Initiated"] < old:
                s3.abort_multipart_upload(
                    Bucket=lake.bucket, Key=upload["Key"], UploadId=upload["UploadId"]
                )
                ended += 1
    return ended
