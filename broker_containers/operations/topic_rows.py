"""Rows of the list of topics, from what is loaded here and from the metadata."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from broker_containers.topics.topic import Topic
from sulina.metadata.keys import ledgers
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.topics import TopicRow

_AT_ONCE: Final = 64
_MOST_READ: Final = 1_000
"""Logs looked up in the metadata for one list; the length of further ones is not reported."""

Lengths = Mapping[TopicName, int | None]


async def topic_rows(
    store: MetadataStore,
    found: Mapping[TopicName, TopicRecord],
    loaded: Mapping[TopicName, Topic],
) -> tuple[TopicRow, ...]:
    """One row per topic. Producers and consumers are those of this broker."""
    lengths = await _lengths(store, found, loaded)
    return tuple(_row(name, record, loaded, lengths) for name, record in found.items())


def parts_of(name: TopicName, record: TopicRecord) -> list[TopicName]:
    """The partitions of a topic, or the topic itself if it has none."""
    return [name.partition(number) for number in range(record.partitions)] or [name]


def _row(
    name: TopicName,
    record: TopicRecord,
    loaded: Mapping[TopicName, Topic],
    lengths: Lengths,
) -> TopicRow:
    parts = parts_of(name, record)
    opened = [loaded[part] for part in parts if part in loaded]
    records = [lengths.get(part) for part in parts]
    return TopicRow(
        topic=str(name),
        delivery=record.delivery,
        partitions=record.partitions,
        producers=sum(len(topic.producers) for topic in opened),
        consumers=sum(topic.consumer_count for topic in opened),
        records=None if None in records else sum(filter(None, records)),
    )


async def _lengths(
    store: MetadataStore,
    found: Mapping[TopicName, TopicRecord],
    loaded: Mapping[TopicName, Topic],
) -> Lengths:
    """How many records each log holds; None if only the broker that writes it knows."""
    lengths: dict[TopicName, int | None] = {}
    elsewhere = []
    for name, record in found.items():
        for part in parts_of(name, record):
            if part in loaded:
                log = loaded[part].log
                lengths[part] = log.end - log.start
            elif record.delivery is Delivery.RELIABLE and part not in lengths:
                lengths[part] = None
                elsewhere.append(part)
    for start in range(0, min(len(elsewhere), _MOST_READ), _AT_ONCE):
        batch = elsewhere[start : start + _AT_ONCE]
        stored = await asyncio.gather(*(ledgers.get(store, part) for part in batch))
        lengths.update(zip(batch, (_length(each.list.ledgers) for each in stored), strict=True))
    return lengths


def _length(refs: Sequence[ledgers.LedgerRef]) -> int | None:
    if not refs:
        return 0
    last = refs[-1].last_offset
    return None if last is None else last + 1 - refs[0].first_offset
