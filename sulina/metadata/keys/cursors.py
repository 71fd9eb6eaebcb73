"""Cursors: ``/state/{namespace}/{topic}/cursors/{subscription}``, what is acknowledged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from sulina.errors import Refused, TooLarge
from sulina.metadata.check import MAX_TXN_BYTES, MAX_TXN_OPS, check_txn
from sulina.metadata.keys import record
from sulina.metadata.keys.path import part, state_root
from sulina.metadata.store import Compare, MetadataStore, Put
from sulina.names import TopicName

MAX_RANGES = 20_000
"""The number of ranges that certainly fit into a value."""


@dataclass(frozen=True, slots=True)
class CursorRecord:
    """Every record below ``position`` is acknowledged, and the one at it is not.

    ``acked`` are the acknowledged ranges above it (first and last offset), ascending, not adjacent.
    """

    position: int
    acked: tuple[tuple[int, int], ...] = ()
    updated_us: int = 0

    def __post_init__(self) -> None:
        if len(self.acked) > MAX_RANGES:
            raise TooLarge(
                f"a cursor has at most {MAX_RANGES} acknowledged ranges and this one "
                f"{len(self.acked)}: stop delivering until the oldest records are acknowledged"
            )
        free = self.position
        for first, last in self.acked:
            if not free < first <= last:
                raise Refused(
                    f"invalid acknowledged range {first} to {last} of a cursor at {self.position}: "
                    "ranges must be above the position, ascending and not adjacent"
                )
            free = last + 1


@dataclass(frozen=True, slots=True)
class CursorWrite:
    """A cursor to store, and its guards: that the topic exists and is still ours."""

    topic: TopicName
    subscription: str
    cursor: CursorRecord
    guards: tuple[Compare, ...]


def root(topic: TopicName) -> str:
    return state_root(topic) + "cursors/"


def key(topic: TopicName, subscription: str) -> str:
    return root(topic) + part(subscription)


async def get(store: MetadataStore, topic: TopicName, subscription: str) -> CursorRecord | None:
    """A subscription's cursor, if it has one."""
    return await record.get(store, CursorRecord, key(topic, subscription))


async def list_all(store: MetadataStore, topic: TopicName) -> dict[str, CursorRecord]:
    """A topic's cursors, by subscription."""
    listing = await store.range(root(topic))
    return record.by_name(CursorRecord, root(topic), listing.items)


async def put_all(store: MetadataStore, writes: Iterable[CursorWrite]) -> list[CursorWrite]:
    """Store cursors, many per transaction; returns those whose guards did not hold.

    The others are durable when it returns. If the store raises an error, some may be stored;
    storing a cursor again is safe.
    """
    refused: list[CursorWrite] = []
    for group in _groups(writes):
        if await _put(store, group):
            continue
        # One guard fails: it must not prevent the other writes.
        refused += [each.write for each in group if not await _put(store, [each])]
    return refused


@dataclass(frozen=True, slots=True)
class _Encoded:
    write: CursorWrite
    op: Put


async def _put(store: MetadataStore, group: Sequence[_Encoded]) -> bool:
    # Subscriptions of one topic share guards: each is included once.
    guards = dict.fromkeys(guard for each in group for guard in each.write.guards)
    return (await store.txn(list(guards), [each.op for each in group])).succeeded


def _groups(writes: Iterable[CursorWrite]) -> Iterator[list[_Encoded]]:
    """``writes`` in groups that each fit into one transaction."""
    group: list[_Encoded] = []
    guards = size = 0
    for write in writes:
        op = Put(key(write.topic, write.subscription), record.encode(write.cursor))
        cost = check_txn(write.guards, [op], ())
        guards += len(write.guards)
        size += cost
        if len(group) == MAX_TXN_OPS or guards > MAX_TXN_OPS or size > MAX_TXN_BYTES:
            yield group
            group, guards, size = [], len(write.guards), cost
        group.append(_Encoded(write, op))
    if group:
        yield group
