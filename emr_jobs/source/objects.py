"""Lists objects and selects those that a read needs, by name and by footer.

An object's name contains its first offset, so most objects are excluded without opening them.
Publish times are in the footers, which are read in parallel.

Objects that others replaced are left out, as long as they still exist.

Ledgers of one topic may become objects out of order. While an object is missing, a read ends before
it, as if the objects after it did not exist yet either.
"""

from __future__ import annotations

import logging
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.options import END, ReadBounds, ReadOptions, TopicPatterns
from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.errors import NotFound
from sulina.lake.generations import newest_objects
from sulina.lake.layout import ROOT, namespace_prefix, topic_prefix
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock

_log = logging.getLogger(__name__)
FOOTER_THREADS: Final = 16
_MAX_FOOTERS: Final = 20_000
"""With more objects, selection by time is left to the tasks, which read the footers anyway."""
_NEWEST: Final = 32
"""How many objects at the end of a topic partition are checked for one that is still missing."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """A partition of a topic, or an unpartitioned topic (number 0)."""

    topic: str
    number: int

    @classmethod
    def of(cls, name: TopicName) -> TopicPartition:
        """``/ns/orders-part-3`` is partition 3 of ``/ns/orders``."""
        base, number = name.partition_of or (name, 0)
        return cls(str(base), number)

    def matches(self, topics: TopicPatterns) -> bool:
        """Whether the partition, or its topic, is among the topics."""
        base = TopicName.parse(self.topic)
        return topics.match(base) or topics.match(base.partition(self.number))

    def __str__(self) -> str:
        return f"{self.topic} partition {self.number}"


@dataclass(frozen=True, slots=True)
class ObjectCandidate:
    """An object that may contain records to read."""

    found: LakeObject
    end: int | None
    """The offset at which the next object begins and this one must end; None for the last."""
    footer: Footer | None = None

    @property
    def part(self) -> TopicPartition:
        return _part_of(self.found)


def existing_parts(
    storage: LakeStorage, options: ReadOptions
) -> dict[TopicPartition, list[LakeObject]]:
    """As :func:`list_parts`, but a topic or pattern without an object raises ``NotFound``.

    With the option ``allowEmpty``, only a missing bucket or folder does.
    """
    parts = list_parts(storage, options.topics)
    if not options.allow_empty:
        _check_all_exist(storage, options.topics, parts)
    return parts


def list_parts(
    storage: LakeStorage, topics: TopicPatterns
) -> dict[TopicPartition, list[LakeObject]]:
    """The objects of each topic partition in the order of their offsets. Blocks on the store.

    Raises ``NotFound`` if the bucket or folder does not exist.
    """
    found: dict[str, LakeObject] = {}
    for prefix in _prefixes(topics):
        found.update((each.key, each) for each in storage.list(prefix))
    parts: defaultdict[TopicPartition, list[LakeObject]] = defaultdict(list)
    wanted: dict[TopicPartition, bool] = {}
    for _, each in sorted(found.items()):
        part = _part_of(each)
        if part not in wanted:
            wanted[part] = part.matches(topics)
        if wanted[part]:
            parts[part].append(each)
    # Of objects and those that replaced them, the listing may have both.
    newest = {part: newest_objects(each, lambda one: one.name) for part, each in parts.items()}
    return dict(sorted(newest.items()))


def _check_all_exist(
    storage: LakeStorage, topics: TopicPatterns, parts: Iterable[TopicPartition]
) -> None:
    missing = [
        each
        for each in topics.patterns
        if not any(part.matches(TopicPatterns((each,))) for part in parts)
    ]
    if not missing:
        return
    if not storage.has_folder(ROOT):
        raise NotFound(
            f"{storage.url} has no folder {ROOT.rstrip('/')}, so no ledger was ever tiered there: "
            "set the path to the bucket and prefix, or to the folder, that the brokers tier to"
        )
    raise NotFound(
        f"{', '.join(missing)} has no objects in {storage.url}: check the name, and that a ledger "
        "of the topic was tiered (sulina ledger offload). If the topic may be empty, allow it "
        "(option allowEmpty, or --allow-empty)"
    )


def _part_of(found: LakeObject) -> TopicPartition:
    name = found.name
    return TopicPartition(f"/{name.namespace}/{name.topic}", name.partition)


def candidates(
    objects: Sequence[LakeObject], start: int = 0, end: int = END
) -> list[ObjectCandidate]:
    """The objects of a topic partition that may contain offsets from ``start`` up to ``end``."""
    chosen = []
    for found, following in zip(objects, [*objects[1:], None], strict=True):
        after = following.name.first_offset if following is not None else None
        if found.name.first_offset < end and (after is None or after > start):
            chosen.append(ObjectCandidate(found, after))
    return chosen


def choose(storage: LakeStorage, options: ReadOptions) -> list[ObjectCandidate]:
    """The objects that may contain records within the bounds, by topic partition and offset.

    Blocks on the store: it lists objects and reads the footers of the newest ones, and with time
    bounds those of all. Raises ``NotFound`` as :func:`existing_parts` does.
    """
    bounds = options.bounds
    young_us = RealClock().wall_us() - options.gap_seconds * 1_000_000
    chosen: list[ObjectCandidate] = []
    for part, objects in existing_parts(storage, options).items():
        if not options.wants(part.number):
            continue
        arrived = _arrived(storage, objects, young_us)
        found = candidates(arrived, bounds.start_offset, bounds.end_offset)
        if bounds.by_time and options.clock_skew is not None:
            found = near_times(storage, found, bounds, options.clock_skew * 1_000_000)
        chosen += found
    if not bounds.by_time or len(chosen) > _MAX_FOOTERS:
        return chosen
    return [
        ObjectCandidate(each.found, each.end, footer)
        for each, footer in zip(chosen, footers(storage, [c.found for c in chosen]), strict=True)
        if footer.summary.records
        and footer.summary.last_time_us >= bounds.start_time
        and footer.summary.first_time_us < bounds.end_time
    ]


def near_times(
    storage: LakeStorage, found: list[ObjectCandidate], bounds: ReadBounds, skew_us: int
) -> list[ObjectCandidate]:
    """The objects of a topic partition that may contain the times, found with few footers.

    Assumes that publish times deviate from offset order by at most ``skew_us``, which allows a
    binary search. Blocks on the store.
    """

    def last_time(each: ObjectCandidate) -> int:
        return read_footer(storage, each.found).summary.last_time_us

    def first_time(each: ObjectCandidate) -> int:
        return read_footer(storage, each.found).summary.first_time_us

    if bounds.start_time > 0:
        found = found[bisect_left(found, bounds.start_time - skew_us, key=last_time) :]
    if bounds.end_time < END:
        found = found[: bisect_left(found, bounds.end_time + skew_us, key=first_time)]
    return found


def _arrived(storage: LakeStorage, objects: list[LakeObject], young_us: int) -> list[LakeObject]:
    """The objects of a topic partition before the first gap that may still be filled.

    That is a gap before an object written after ``young_us``. An older gap makes the read fail.
    """
    newest = range(max(len(objects) - _NEWEST, 1), len(objects))
    young = next((at for at in newest if objects[at].modified_us > young_us), len(objects))
    looked_at = objects[young - 1 :] if young < len(objects) else []
    ends = [each.summary.last_offset + 1 for each in footers(storage, looked_at)]
    for at, (end, (_, after)) in enumerate(zip(ends, pairwise(looked_at), strict=False), young):
        if end < after.name.first_offset and after.modified_us > young_us:
            _log.warning(
                "reading %s only up to offset %d: the object that begins there does not exist yet",
                _part_of(after),
                end,
            )
            return objects[:at]
    return objects


def footers(storage: LakeStorage, objects: Iterable[LakeObject]) -> list[Footer]:
    """The footers of objects, in the same order; several requests run in parallel."""
    objects = list(objects)
    if len(objects) < 2:
        return [read_footer(storage, each) for each in objects]
    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        return list(pool.map(lambda each: read_footer(storage, each), objects))


def _prefixes(topics: TopicPatterns) -> list[str]:
    """The prefixes to list: of a topic, of a pattern's namespace, or the whole lake."""
    prefixes = set()
    for pattern in topics.patterns:
        parts = pattern.split("/")
        exact = TopicPatterns((pattern,)).exact
        if exact is not None:
            prefixes.add(topic_prefix(exact[0]))
        elif len(parts) == 3 and not any(mark in parts[1] for mark in "*?["):
            prefixes.add(namespace_prefix(parts[1]))
        else:
            prefixes.add(ROOT)
    return sorted(prefixes)
