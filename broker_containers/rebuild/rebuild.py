"""Carries out a rebuild plan: copies ledgers, then swaps the topic's list.

A found ledger is copied into a new one, with all its replicas and new metadata, because what the
metadata knew about it (which nodes have which entries, and where it ends) is lost or outdated. Each
topic changes in one swap after its copies are durable, so an interrupted rebuild can be repeated.
The originals are kept.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from broker_containers.rebuild.plan import CopiedLedger, TopicPlan
from broker_containers.rebuild.survey import LedgerCopies, Progress, StorageSurvey
from storage_grpc.ledgers import Ledgers
from sulina.errors import Fenced, Refused, Unavailable
from sulina.metadata.keys import ledger_pages, members, namespaces, topic_lifecycle, topics
from sulina.metadata.keys import ledgers as ledger_keys
from sulina.metadata.keys.ledgers import LedgerIds, LedgerList, LedgerRef, LedgerState
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock
from sulina.wire.header import parse_header

_UNDER_WAY: Final = 16 << 20
_LOOK_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result for one topic."""

    topic: TopicName
    end: int
    """The offset after its last record."""
    copied: int
    """Ledgers copied."""
    ledgers: int
    """Ledgers it has now."""


async def wait_until_alone(store: MetadataStore, clock: Clock, seconds: float) -> None:
    """Wait until no broker is registered. Raises ``Refused`` if one stays registered.

    Registrations restored from an old copy of the metadata stay until their leases expire.
    """
    end = clock.now() + seconds
    while found := (await store.range(members.REGISTER)).items:
        if clock.now() >= end:
            names = ", ".join(item.key.removeprefix(members.REGISTER) for item in found)
            raise Refused(f"brokers are running ({names}): stop them first, they would interfere")
        await clock.sleep(_LOOK_SECONDS)


async def known_lists(store: MetadataStore) -> dict[TopicName, LedgerList]:
    """The stored ledger list of every topic that has one."""
    found: dict[TopicName, LedgerList] = {}
    for namespace in await namespaces.list_names(store):
        for topic, record in (await topics.list_all(store, namespace)).items():
            if not record.partitions:
                stored = await ledger_keys.get(store, topic)
                if stored.revision:
                    found[topic] = stored.list
    return found


class Rebuild:
    """Carries out plans, one topic at a time."""

    def __init__(
        self, store: MetadataStore, ledgers: Ledgers, copies: LedgerCopies, clock: Clock
    ) -> None:
        self._store = store
        self._ledgers = ledgers
        self._copies = copies
        self._clock = clock
        self._ids = LedgerIds(store)

    async def never_again(self, survey: StorageSurvey) -> None:
        """Make sure that no id of an existing or former ledger is assigned again. Call it first."""
        await ledger_keys.skip_ids(self._store, survey.highest)

    async def carry_out(self, plan: TopicPlan, progress: Progress) -> Rebuilt:
        """Carry out the plan of one topic.

        Raises ``Unavailable`` if copies cannot be read or written, ``Fenced`` if the topic changed
        meanwhile; then it is unchanged.
        """
        await self._make_topic(plan.topic)
        refs: list[LedgerRef] = []
        copied = 0
        for number, piece in enumerate(plan.pieces):
            progress(str(plan.topic), number, len(plan.pieces))
            if isinstance(piece, CopiedLedger):
                refs.append(await self._copy(piece))
                copied += 1
            else:
                refs.append(piece)
        stored = await ledger_keys.get(self._store, plan.topic)
        if stored.list != plan.known:
            raise Fenced(f"{plan.topic} was changed concurrently")
        made = LedgerList(plan.epoch, tuple(refs), generation=plan.generation)
        wanted = ledger_pages.with_pages(made)
        revision = await ledger_keys.swap(
            self._store, plan.topic, stored.revision, wanted, before=LedgerList()
        )
        if revision is None:
            raise Fenced(f"{plan.topic} was changed concurrently")
        progress(str(plan.topic), len(plan.pieces), len(plan.pieces))
        return Rebuilt(plan.topic, plan.end, copied, len(refs))

    async def _make_topic(self, topic: TopicName) -> None:
        """Recreate a topic that the metadata does not know, as far as its name tells."""
        if await topics.get(self._store, topic) is not None:
            return
        if topic.namespace not in await namespaces.list_names(self._store):
            await namespaces.create(self._store, topic.namespace, Policy())
        record = TopicRecord(created_us=self._clock.wall_us())
        base, number = topic.partition_of or (topic, None)
        if number is None:
            await topic_lifecycle.create(self._store, topic, record)
        elif await topics.get(self._store, base) is None:
            await topic_lifecycle.create(self._store, base, replace(record, partitions=number + 1))
        else:
            await topic_lifecycle.grow(self._store, base, number + 1)

    async def _copy(self, piece: CopiedLedger) -> LedgerRef:
        await self._copies.fence(piece.ledger)
        new = await self._ids.next()
        writer = await self._ledgers.create(new)
        ref = LedgerRef(id=new, first_offset=piece.first_offset)
        under_way: deque[asyncio.Future[None]] = deque()
        waiting = entry = 0
        end = piece.first_offset
        while end < piece.end:
            found = await self._copies.read(piece.ledger, entry)
            if not found:
                raise Unavailable(f"entry {entry} of ledger {piece.ledger} can no longer be read")
            for one in found:
                header = parse_header(one.payload)
                if header.next_offset > piece.end:
                    break
                end = header.next_offset
                under_way.append(writer.append(one.payload))
                waiting += header.size
                ref = replace(
                    ref,
                    bytes=ref.bytes + header.size,
                    first_time_us=ref.first_time_us or (header.first_time if header.count else 0),
                    last_time_us=max(ref.last_time_us, header.last_time if header.count else 0),
                )
                if waiting > _UNDER_WAY:
                    waiting = 0
                    await _all(under_way)
            entry += len(found)
        await _all(under_way)
        return replace(
            ref,
            state=LedgerState.CLOSED,
            last_offset=end - 1,
            last_entry=await writer.close(),
        )


async def _all(under_way: deque[asyncio.Future[None]]) -> None:
    while under_way:
        await under_way.popleft()
