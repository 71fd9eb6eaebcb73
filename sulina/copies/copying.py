"""Copies partitions into a topic, exactly once, and continues where it was interrupted.

Each record is published with its offset in the source as its sequence number, under a name that
follows from the source. The broker stores no sequence number of a producer twice, and tells how far
a name got. So nothing is stored on the side, and a copy that is run again adds only what is
missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sulina.copies.sources import CopySource
from sulina.errors import NotFound, Refused
from sulina.model import Delivery
from sulina.names import TopicName

if TYPE_CHECKING:
    from sulina.client.client import Client
    from sulina.client.message import Batch

KeepsSchema = Callable[[int, int], Awaitable[bool]]
"""Whether a schema id and version mean the same at the target."""


@dataclass(frozen=True, slots=True)
class PartitionCopy:
    """What was copied of one partition."""

    source: str
    target: str
    first_offset: int
    """Of the range that was asked for."""
    end_offset: int
    records: int
    """Published now; fewer than the range has if an earlier run copied some."""


def producer_name(source: str) -> str:
    """The name under which records of ``source`` are published."""
    return f"copy-of{source.replace('/', '-')}"


async def prepare_target(target: Client, topic: str, partitions: int) -> list[str]:
    """The partitions of the target, which is created if it does not exist.

    Raises ``Refused`` if it has another number of partitions, or stores nothing.
    """
    try:
        info = await target.topic(topic)
    except NotFound:
        await target.admin.topics.create(topic, partitions=partitions)
        info = await target.topic(topic)
    if info.delivery is not Delivery.RELIABLE:
        raise Refused(f"{topic} stores nothing: copy to a reliable topic")
    if len(info.partitions) != partitions:
        raise Refused(
            f"{topic} has {len(info.partitions) or 'no'} partitions and the source has "
            f"{partitions or 'none'}: records stay in their partition, so copy to a new topic"
        )
    return [name for name, _ in info.parts]


async def copy_partitions(
    sources: Sequence[CopySource],
    target: Client,
    topic: str,
    *,
    name: str = "",
    compression: str = "none",
    keeps_schema: KeepsSchema,
    progress: Callable[[int, int], None],
) -> list[PartitionCopy]:
    """Copy each source to the partition of ``topic`` with the same number.

    ``progress`` is called with how many offsets are done, and how many there are. Everything is
    durable when this returns. Raises what reading and publishing raise; run it again to continue.
    """
    partitioned = TopicName.parse(sources[0].name).partition_of is not None
    named = TopicName.parse(topic).partition_of is not None
    parts = await prepare_target(target, topic, len(sources) if partitioned and not named else 0)
    total = sum(each.end - each.start for each in sources)
    done = 0
    copies: list[PartitionCopy] = []
    known: dict[tuple[int, int], bool] = {(0, 0): True}

    async def keeps(batch: Batch) -> bool:
        header = batch.frame.header
        version = header.schema_id, header.schema_version
        if version not in known:
            known[version] = await keeps_schema(*version)
        return known[version]

    for source, part in zip(sources, parts, strict=True):
        label = name or producer_name(source.name)
        records = 0
        async with target.producer(
            part, name=label, create=False, compression=compression
        ) as producer:
            offset = max(source.start, producer.next_sequence)
            progress(done + min(offset, source.end) - source.start, total)
            async for batch in source.read(offset):
                records += await producer.forward(batch, schema=await keeps(batch))
                progress(done + batch.frame.header.next_offset - source.start, total)
        done += source.end - source.start
        copies.append(PartitionCopy(source.name, part, source.start, source.end, records))
    return copies
