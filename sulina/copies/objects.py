"""Reads the history of a topic from its objects alone, without a broker and without metadata.

Several objects may have the same records: one that replaced others, and those, until they are
deleted. The highest generation counts, so that nothing comes back that was compacted or erased. Of
other objects with the same offsets, the widest one counts, and the newest of equally wide ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Final

from sulina.client.message import Batch
from sulina.errors import CorruptEntry, NotFound, Refused
from sulina.lake.decoder import TAIL, Footer, NeedMore, decode_row_group, open_footer
from sulina.lake.generations import newest_objects
from sulina.lake.layout import parse_key, topic_prefix
from sulina.names import TopicName
from sulina.objects.store import ObjectStore
from sulina.wire.decode import Frame

_LISTED_AT_ONCE: Final = 1000


@dataclass(frozen=True, slots=True)
class HistoryObject:
    """An object of a partition, and what is in it."""

    key: str
    footer: Footer

    @property
    def first(self) -> int:
        return self.footer.summary.first_offset

    @property
    def last(self) -> int:
        return self.footer.summary.last_offset


class ObjectHistory:
    """The records of one partition that were published before a time, from objects."""

    def __init__(
        self,
        store: ObjectStore,
        name: TopicName,
        objects: Sequence[HistoryObject],
        before_us: int | None,
    ) -> None:
        self._store = store
        self._objects = objects
        self._before_us = before_us
        self._partition = None if name.partition_of is None else name.partition_of[1]
        self.name = str(name)
        self.start = objects[0].first if objects else 0
        self.end = objects[-1].last + 1 if objects else 0

    async def read(self, offset: int) -> AsyncIterator[Batch]:
        for found in self._objects:
            for group in found.footer.row_groups[found.footer.find(offset) :]:
                if self._before_us is not None and group.first_time_us >= self._before_us:
                    continue
                data = await self._store.get(found.key, group.start, group.end)
                for frame in decode_row_group(found.footer, group, data):
                    batch = self._published_before(Batch(Frame(frame), self.name, self._partition))
                    if len(batch):
                        yield batch

    def _published_before(self, batch: Batch) -> Batch:
        if self._before_us is None:
            return batch
        kept = "".join("01"[time < self._before_us] for time in reversed(batch.frame.times))
        return batch.narrowed(int(kept, 2))


async def open_history(
    store: ObjectStore, topic: TopicName, before_us: int | None, *, allow_gaps: bool
) -> list[ObjectHistory]:
    """The partitions of ``topic`` in a store, or the topic itself without partitions.

    With ``before_us``, only records published before that time, by the clocks of their producers.
    Raises ``NotFound`` without objects, ``CorruptEntry`` if one is damaged, and ``Refused`` if
    records are missing between two objects, unless ``allow_gaps``.
    """
    found: dict[TopicName, list[HistoryObject]] = defaultdict(list)
    prefix, after = topic_prefix(topic), ""
    while infos := await store.list(prefix, after=after, limit=_LISTED_AT_ONCE):
        for info in infos:
            after = info.key
            try:
                parse_key(info.key)
            except Refused:
                continue  # not a ledger's
            footer = await _footer(store, info.key)
            found[footer.summary.topic].append(HistoryObject(info.key, footer))
    if not found:
        raise NotFound(f"there are no objects of {topic} in the object store: check its URL")
    plain, parts = found.pop(topic, None), sorted(found, key=lambda name: name.partition_of or ())
    if plain is not None and parts:
        raise Refused(
            f"{topic} has objects from times with and without partitions: name a partition, "
            f"for example {parts[0]}"
        )
    chosen = {topic: plain} if plain is not None else {name: found[name] for name in parts}
    return [
        ObjectHistory(
            store, name, _in_time(chain(name, _newest(objects), allow_gaps), before_us), before_us
        )
        for name, objects in chosen.items()
    ]


def _newest(objects: Sequence[HistoryObject]) -> list[HistoryObject]:
    """Those that count: an object and what it replaced may both be there."""
    return newest_objects(objects, lambda each: parse_key(each.key))


def chain(
    topic: TopicName, objects: Sequence[HistoryObject], allow_gaps: bool
) -> list[HistoryObject]:
    """The objects that have each record once, in order. Raises ``Refused`` for a gap."""
    chosen: list[HistoryObject] = []
    counting = newest_objects(objects, lambda each: parse_key(each.key))
    ordered = [each for each in counting if each.last >= each.first]
    if not ordered:
        return []
    following, widest = ordered[0].first, ordered[0]
    at = 0
    while True:
        while at < len(ordered) and ordered[at].first <= following:
            widest = max(widest, ordered[at], key=_reach)
            at += 1
        if widest.last >= following:
            chosen.append(widest)
            following = widest.last + 1
        elif at == len(ordered):
            return chosen
        else:
            if not allow_gaps:
                raise Refused(
                    f"the objects of {topic} lack the records from offset {following} to "
                    f"{ordered[at].first - 1}: restore them from a backup, or give --allow-gaps"
                )
            following = ordered[at].first


def _reach(found: HistoryObject) -> tuple[int, int]:
    return found.last, found.footer.summary.ledger


def _in_time(objects: list[HistoryObject], before_us: int | None) -> list[HistoryObject]:
    if before_us is None:
        return objects
    return [each for each in objects if each.footer.summary.first_time_us < before_us]


async def _footer(store: ObjectStore, key: str) -> Footer:
    tail, size = await store.tail(key, TAIL)
    footer = open_footer(tail, size)
    if isinstance(footer, NeedMore):
        tail, size = await store.tail(key, footer.length)
        footer = open_footer(tail, size)
    if isinstance(footer, NeedMore):
        raise CorruptEntry(f"the footer of {key} cannot be read")
    return footer
