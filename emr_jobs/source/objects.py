"""Which objects a read is about: listed, sorted by topic partition, chosen by name and by footer.

Names tell the first offset of each object, so most of what a read does not want is left out
without a look inside. Publish times are in the objects' footers, which are read many at a time.

Ledgers of one topic may become objects out of order. While one is still on its way, a read ends
before it, as if those behind it were not there yet, either.
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
from emr_jobs.source.options import END, Bounds, ReadOptions, Topics
from emr_jobs.source.storage import Found, Storage
from sulina.lake.layout import ROOT, namespace_prefix, topic_prefix
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock

_log = logging.getLogger(__name__)
FOOTER_THREADS: Final = 16
_MOST_FOOTERS: Final = 20_000
"""Beyond, choosing by time is left to the tasks, which see the footers anyway."""
_NEWEST: Final = 32
"""Objects at the end of a topic partition among which one may still be on its way."""


@dataclass(frozen=True, slots=True, order=True)
class TopicPartition:
    """One order of offsets: a partition of a topic, or a topic without partitions (number 0)."""

    topic: str
    number: int

    @classmethod
    def of(cls, name: TopicName) -> TopicPartition:
        """``/ns/orders-part-3`` is partition 3 of ``/ns/orders``."""
        base, number = name.partition_of or (name, 0)
        return cls(str(base), number)

    def __str__(self) -> str:
        return f"{self.topic} partition {self.number}"


@dataclass(frozen=True, slots=True)
class Candidate:
    """An object of which records are wanted, as far as its name tells."""

    found: Found
    end: int | None
    """The offset at which the next object begins, and so this one must end; None for the last."""
    footer: Footer | None = None

    @property
    def part(self) -> TopicPartition:
        return _part_of(self.found)


def list_parts(storage: Storage, topics: Topics) -> dict[TopicPartition, list[Found]]:
    """The objects of each topic partition in the order of their offsets. Blocks on the store."""
    found: dict[str, Found] = {}
    for prefix in _prefixes(topics):
        found.update((each.key, each) for each in storage.list(prefix))
    parts: defaultdict[TopicPartition, list[Found]] = defaultdict(list)
    wanted: dict[TopicPartition, bool] = {}
    for _, each in sorted(found.items()):
        name, part = each.name, _part_of(each)
        if part not in wanted:
            base = TopicName(name.namespace, name.topic)
            wanted[part] = topics.match(base) or topics.match(base.partition(name.partition))
        if wanted[part]:
            parts[part].append(each)
    return dict(sorted(parts.items()))


def _part_of(found: Found) -> TopicPartition:
    name = found.name
    return TopicPartition(f"/{name.namespace}/{name.topic}", name.partition)


def candidates(objects: Sequence[Found], start: int = 0, end: int = END) -> list[Candidate]:
    """The objects of one topic partition that may hold offsets from ``start`` to before ``end``."""
    chosen = []
    for found, following in zip(objects, [*objects[1:], None], strict=True):
        after = following.name.first_offset if following is not None else None
        if found.name.first_offset < end and (after is None or after > start):
            chosen.append(Candidate(found, after))
    return chosen


def choose(storage: Storage, options: ReadOptions) -> list[Candidate]:
    """The objects in which there may be records within the bounds, by topic partition and offset.

    Blocks on the store: a listing, a look at the footers of the newest objects, and with bounds of
    time at those of all.
    """
    bounds = options.bounds
    young_us = RealClock().wall_us() - options.gap_seconds * 1_000_000
    chosen: list[Candidate] = []
    for objects in list_parts(storage, options.topics).values():
        arrived = _arrived(storage, objects, young_us)
        found = candidates(arrived, bounds.start_offset, bounds.end_offset)
        if bounds.by_time and options.clock_skew is not None:
            found = near_times(storage, found, bounds, options.clock_skew * 1_000_000)
        chosen += found
    if not bounds.by_time or len(chosen) > _MOST_FOOTERS:
        return chosen
    return [
        Candidate(each.found, each.end, footer)
        for each, footer in zip(chosen, footers(storage, [c.found for c in chosen]), strict=True)
        if footer.summary.records
        and footer.summary.last_time_us >= bounds.start_time
        and footer.summary.first_time_us < bounds.end_time
    ]


def near_times(
    storage: Storage, found: list[Candidate], bounds: Bounds, skew_us: int
) -> list[Candidate]:
    """The objects of one topic partition that may hold records of the times, by a few footers.

    Publish times are taken to rise with the offsets but for ``skew_us`` at most, so what one
    object holds tells of all before it, or behind it. Blocks on the store.
    """

    def last_time(each: Candidate) -> int:
        return read_footer(storage, each.found).summary.last_time_us

    def first_time(each: Candidate) -> int:
        return read_footer(storage, each.found).summary.first_time_us

    if bounds.start_time > 0:
        found = found[bisect_left(found, bounds.start_time - skew_us, key=last_time) :]
    if bounds.end_time < END:
        found = found[: bisect_left(found, bounds.end_time + skew_us, key=first_time)]
    return found


def _arrived(storage: Storage, objects: list[Found], young_us: int) -> list[Found]:
    """The objects of a topic partition before the first gap that may be filled yet.

    That is one before an object written since ``young_us``. Older gaps are left for the read to
    stumble over.
    """
    newest = range(max(len(objects) - _NEWEST, 1), len(objects))
    young = next((at for at in newest if objects[at].modified_us > young_us), len(objects))
    looked_at = objects[young - 1 :] if young < len(objects) else []
    ends = [each.summary.last_offset + 1 for each in footers(storage, looked_at)]
    for at, (end, (_, after)) in enumerate(zip(ends, pairwise(looked_at), strict=False), young):
        if end < after.name.first_offset and after.modified_us > young_us:
            _log.warning(
                "%s is read to before offset %d: the object that begins there is not written yet",
                _part_of(after),
                end,
            )
            return objects[:at]
    return objects


def footers(storage: Storage, objects: Iterable[Found]) -> list[Footer]:
    """The footers of objects, in the same order; a few requests run at a time."""
    objects = list(objects)
    if len(objects) < 2:
        return [read_footer(storage, each) for each in objects]
    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        return list(pool.map(lambda each: read_footer(storage, each), objects))


def _prefixes(topics: Topics) -> list[str]:
    """What to list. A pattern that names its namespace is looked for in that namespace alone."""
    prefixes = set()
    for pattern in topics.patterns:
        parts = pattern.split("/")
        exact = Topics((pattern,)).exact
        if exact is not None:
            prefixes.add(topic_prefix(exact[0]))
        elif len(parts) == 3 and not any(mark in parts[1] for mark in "*?["):
            prefixes.add(namespace_prefix(parts[1]))
        else:
            prefixes.add(ROOT)
    return sorted(prefixes)
