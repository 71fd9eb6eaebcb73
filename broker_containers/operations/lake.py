"""The handler of ``lake.list``: objects and freshness of topics, and failed attempts.

What is in objects comes from the metadata, for the topics of the page only. Failures are known to
the broker that serves a topic: the others are asked for theirs.
"""

from __future__ import annotations

import asyncio
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import Operations, handles
from broker_containers.operations.topic_search import visible_topics
from broker_containers.topics.tiering import untiered
from sulina.metadata.keys import ledgers, topics
from sulina.metadata.keys.ledger_list import LedgerRef
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.lake import LakeOperations, LakePage, TopicInLake

_MOST_FAILED: Final = 200
_AT_ONCE: Final = 16


class LakeHandlers:
    """Shows the lake."""

    def __init__(self, broker: Broker, operations: Operations) -> None:
        self._broker = broker
        self._operations = operations

    @handles(LakeOperations.list)
    async def list(
        self, *, text: str = "", failed: bool = False, skip: int = 0, limit: int = 50
    ) -> LakePage:
        visible = visible_topics(self._broker, text.lower(), None)
        own = self._failures()
        if self._operations.asked_by_broker:
            rows = tuple(_row(name, 0, [], *own[name]) for name in own if name in visible)
            return LakePage(rows, len(rows))
        given = {"text": text, "failed": True, "limit": _MOST_FAILED}
        for page in await self._operations.of_others(
            LakeOperations.list, given, self._broker.clock
        ):
            for row in page.topics:
                count, _ = own.get(row.topic, (0, ""))
                own[row.topic] = count + row.failed_ledgers, row.failure
        names = sorted(visible & own.keys() if failed else visible)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def look(name: str) -> TopicInLake | None:
            async with turns:
                return await self._look(name, *own.get(name, (0, "")))

        found = await asyncio.gather(*map(look, names[skip : skip + limit]))
        places = self._broker.settings.tables
        return LakePage(
            tuple(row for row in found if row is not None),
            len(names),
            catalog=bool(places.catalog),
            lake=places.lake if places.catalog else "",
            database=places.database if places.catalog else "",
        )

    def _failures(self) -> dict[str, tuple[int, str]]:
        """The failed ledgers of each topic here, and why the last one did."""
        found: dict[str, tuple[int, str]] = {}
        for part, why in self._broker.tiering.failures():
            whole = part.partition_of
            # A topic's own name may look like that of a partition.
            known = whole is not None and str(whole[0]) in self._broker.quotas.stored.topics()
            name = str(whole[0]) if known and whole is not None else str(part)
            if name in found or len(found) < _MOST_FAILED:
                found[name] = found.get(name, (0, ""))[0] + 1, why
        return found

    async def _look(self, name: str, failed: int, why: str) -> TopicInLake | None:
        """None if the topic was deleted meanwhile."""
        store, topic = self._broker.store, TopicName.parse(name)
        record = await topics.get(store, topic)
        if record is None:
            return None
        refs: list[LedgerRef] = []
        if record.delivery is Delivery.RELIABLE:
            numbers = range(record.partitions)
            for part in [topic.partition(each) for each in numbers] or [topic]:
                refs += (await ledgers.get(store, part)).list.ledgers
        return _row(name, record.partitions, refs, failed, why)


def _row(name: str, partitions: int, refs: list[LedgerRef], failed: int, why: str) -> TopicInLake:
    stored = [(ref, ref.tiered) for ref in refs if ref.tiered is not None]
    waiting = untiered(refs)
    return TopicInLake(
        topic=name,
        partitions=partitions,
        objects=len(stored),
        object_bytes=sum(tiered.size for _, tiered in stored),
        records=sum(
            ref.records if tiered.records is None else tiered.records for ref, tiered in stored
        ),
        newest_us=max((ref.last_time_us for ref, _ in stored), default=None),
        waiting_ledgers=len(waiting),
        waiting_bytes=sum(ref.bytes for ref in waiting),
        waiting_since_us=min((ref.first_time_us for ref in waiting), default=None),
        failed_ledgers=failed,
        failure=why,
    )
