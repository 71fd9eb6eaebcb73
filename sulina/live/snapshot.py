"""The records of a topic at one moment, and where each of them is.

Offsets never change, and an object has the same records as the ledger that it was made of. So the
offsets of a partition are divided once into pieces that do not overlap: those in objects, by the
brokers' list of ledgers, and the rest, which the brokers serve. What is tiered, merged or deleted
afterwards does not change the division: a piece whose object is gone is read from the brokers, who
know where its records are now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

from sulina.client.client import Client
from sulina.names import TopicName
from sulina.operations.ledgers import LedgerRow
from sulina.operations.topics import TopicLog


@dataclass(frozen=True, slots=True)
class TieredObject:
    """An object of the lake, as the brokers know it."""

    key: str
    size: int
    last_time_us: int
    """The latest publish time in it. The earliest is only in its footer: clocks may deviate."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive records of a partition, in offset order: from ``start`` up to ``end``."""

    topic: str
    """The partition's name, or that of a topic without partitions."""
    start: int
    end: int
    """Exclusive."""
    stored: TieredObject | None = None
    """The object that has them; None if they are to be read from the brokers."""

    @property
    def partition(self) -> int:
        """0 for a topic without partitions."""
        found = TopicName.parse(self.topic).partition_of
        return 0 if found is None else found[1]


async def snapshot(client: Client, topic: TopicName, *, lake: bool = True) -> tuple[Piece, ...]:
    """The pieces of a topic with all its partitions, by partition and offset.

    Without a lake, all of them are to be read from the brokers. Raises ``NotFound`` for a topic
    that does not exist, ``Refused`` for one that stores nothing.
    """
    rows = await client.admin.ledgers.list(str(topic))
    # Asked second, so that the ends are not before what the list has.
    logs = await client.admin.topics.partitions(str(topic))
    ledgers = {name: list(some) for name, some in groupby(rows, lambda row: row.topic)}
    return tuple(
        piece
        for log in logs
        for piece in pieces_of(log, ledgers.get(log.topic, ()) if lake else ())
    )


def pieces_of(log: TopicLog, ledgers: Iterable[LedgerRow]) -> Iterator[Piece]:
    """Divide the offsets of a partition. Pure."""
    position = log.start_offset
    for row in ledgers:
        if row.key is None or row.last_offset is None:
            continue
        start, end = max(row.first_offset, position), min(row.last_offset + 1, log.end_offset)
        if start >= end:
            continue
        if start > position:
            yield Piece(log.topic, position, start)
        found = TieredObject(row.key, row.object_bytes or 0, row.last_time_us)
        yield Piece(log.topic, start, end, found)
        position = end
    if position < log.end_offset:
        yield Piece(log.topic, position, log.end_offset)


def rest_of(piece: Piece, position: int) -> Piece:
    """The records of ``piece`` from ``position`` on, to be read from the brokers."""
    return replace(piece, start=position, stored=None)
