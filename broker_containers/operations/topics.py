"""Handlers of the operations on namespaces and topics, and of a broker's own numbers.

A changed limit is durable when its operation returns. It applies to what happens from then on:
producers and consumers that are connected stay.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Final, Unpack

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.operations.subscriptions import subscription_row
from broker_containers.quotas.quotas import SYSTEM
from broker_containers.security.access import ACTING
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.retention import consumed_below
from broker_containers.topics.retention_plan import fates
from broker_containers.topics.topic import Topic
from sulina.audit import TOPIC as AUDIT_TOPIC
from sulina.errors import Refused
from sulina.metadata.keys import ledgers, namespaces, topics
from sulina.metadata.keys.policy import Policy, require_consistent
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.cluster import BrokerOperations, BrokerStats
from sulina.operations.topics import (
    LedgerFate,
    LedgerSpan,
    NamespaceDetails,
    NamespaceLimits,
    NamespaceOperations,
    PolicySource,
    RetentionUndone,
    TopicCreated,
    TopicDetails,
    TopicLedgers,
    TopicLimits,
    TopicLog,
    TopicOperations,
    TopicRetention,
    TopicRow,
)

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
        lengths.update(zip(batch, (_length(each.list.visible) for each in stored), strict=True))
    return lengths


def _length(refs: Sequence[ledgers.LedgerRef]) -> int | None:
    if not refs:
        return 0
    last = refs[-1].last_offset
    return None if last is None else last + 1 - refs[0].first_offset


class TopicHandlers:
    """Namespaces and topics; ``admin`` reaches partitions that other brokers own."""

    def __init__(self, broker: Broker, admin: AdminClient) -> None:
        self._broker = broker
        self._store = broker.store
        self._admin = admin
        self._applying = asyncio.Lock()

    @handles(BrokerOperations.stats)
    async def stats(self) -> BrokerStats:
        broker = self._broker
        loaded = list(broker.loaded())
        return BrokerStats(
            broker=broker.settings.broker_id,
            topics=len(loaded),
            producers=sum(len(topic.producers) for topic in loaded),
            consumers=sum(topic.consumer_count for topic in loaded),
            cache_bytes=broker.cache.bytes,
            records_in=sum(topic.counters.records_in for topic in loaded),
            bytes_in=sum(topic.counters.bytes_in for topic in loaded),
        )

    # ---- namespaces ----

    @handles(NamespaceOperations.list)
    async def list_namespaces(self) -> tuple[str, ...]:
        sees = ACTING.get().sees
        return tuple(
            name for name in await namespaces.list_names(self._store) if sees(f"/{name}/*")
        )

    @handles(NamespaceOperations.create)
    async def create_namespace(self, namespace: str) -> None:
        await namespaces.create(self._store, namespace, Policy())

    @handles(NamespaceOperations.delete)
    async def delete_namespace(self, namespace: str) -> None:
        await namespaces.delete(self._store, namespace)

    @handles(NamespaceOperations.describe)
    async def describe_namespace(self, namespace: str) -> NamespaceDetails:
        own = await namespaces.get_overrides(self._store, namespace)
        policy = own.over(self._broker.policy_defaults())
        found = await topics.list_all(self._store, namespace)
        return NamespaceDetails(namespace, len(found), policy)

    @handles(NamespaceOperations.policy)
    async def namespace_policy(self, namespace: str, **limits: Unpack[NamespaceLimits]) -> Policy:
        own = await namespaces.get_overrides(self._store, namespace)
        defaults = self._broker.policy_defaults()
        if not limits:
            return own.over(defaults)
        if namespace == SYSTEM:
            raise Refused(
                f"the limits of {namespace!r} can't be changed: they would apply to the audit "
                f"trail, {AUDIT_TOPIC}"
            )
        wanted = own.with_changes(limits).over(defaults)
        require_consistent(wanted, f"the namespace {namespace!r}")
        await namespaces.update_policy(self._store, namespace, limits)
        await self._apply_policies(namespace)
        return (await namespaces.get_overrides(self._store, namespace)).over(defaults)

    async def _apply_policies(self, namespace: str) -> None:
        async with self._applying:  # one at a time, so that the newest is applied last
            for topic in list(self._broker.loaded()):
                if topic.name.namespace == namespace:
                    topic.policy = await self._effective(topic.name)

    # ---- topics ----

    @handles(TopicOperations.list)
    async def list(
        self, *, namespace: str | None = None, all: bool = False
    ) -> tuple[TopicRow, ...]:
        names = [namespace] if namespace else await namespaces.list_names(self._store)
        loaded = {topic.name: topic for topic in self._broker.loaded()}
        found = {
            name: record
            for each in names
            for name, record in (await topics.list_all(self._store, each)).items()
            if not record.partition_of or all
        }
        return await topic_rows(self._store, found, loaded)

    @handles(TopicOperations.create)
    async def create(
        self,
        topic: str,
        *,
        delivery: Delivery = Delivery.RELIABLE,
        partitions: int = 0,
        expected_records: int = 0,
        expected_bytes: int = 0,
    ) -> TopicCreated:
        name = TopicName.parse(topic)
        await self._broker.creation.create(
            name,
            delivery,
            partitions,
            expected_records=expected_records,
            expected_bytes=expected_bytes,
        )
        return TopicCreated(str(name))

    @handles(TopicOperations.delete)
    async def delete(self, topic: str) -> None:
        await self._broker.deletion.delete(TopicName.parse(topic))

    @handles(TopicOperations.policy)
    async def policy(self, topic: str, **limits: Unpack[TopicLimits]) -> Policy:
        name = TopicName.parse(topic)
        if limits:
            own, general = await topics.overrides(self._store, name)
            defaults = self._broker.policy_defaults()
            wanted = own.with_changes(limits).over(general.over(defaults))
            require_consistent(wanted, str(name))
            await topics.update_policy(self._store, name, limits)
            await self._apply_policies(name.namespace)
        return await self._effective(name)

    async def _effective(self, name: TopicName) -> Policy:
        return await topics.effective_policy(self._store, name, self._broker.policy_defaults())

    @handles(TopicOperations.policy_sources)
    async def policy_sources(self, topic: str) -> Mapping[str, PolicySource]:
        name = TopicName.parse(topic)
        own, general = await topics.overrides(self._store, name)
        cluster, built_in = self._broker.policy_defaults(), Policy()
        policy = own.over(general.over(cluster))
        sources: dict[str, PolicySource] = {}
        for each in fields(Policy):
            value, source = getattr(policy, each.name), PolicySource.DEFAULT
            if getattr(own, each.name) is not None:
                source = PolicySource.TOPIC
            elif getattr(general, each.name) is not None:
                source = PolicySource.NAMESPACE
            elif value != getattr(built_in, each.name):
                source = PolicySource.CLUSTER
            sources[each.name] = source
        return sources

    @handles(TopicOperations.describe)
    async def describe(self, topic: str) -> TopicDetails:
        name = TopicName.parse(topic)
        record = await self._broker.describe(name, create=False, delivery=None)
        logs = [await self._admin.topics.log(str(part)) for part in parts_of(name, record)]
        return TopicDetails(
            str(name), record.delivery, record.partitions, record.created_us, tuple(logs)
        )

    @handles(TopicOperations.partitions)
    async def partitions(self, topic: str) -> tuple[TopicLog, ...]:
        return (await self.describe(topic)).logs

    @handles(TopicOperations.log)
    async def log(self, topic: str) -> TopicLog:
        return _log_of(await self._broker.topic(TopicName.parse(topic), create=False))

    @handles(TopicOperations.retention)
    async def retention(
        self,
        topic: str,
        *,
        retention_ms: int | None = None,
        retention_bytes: int | None = None,
        delete_consumed: bool | None = None,
    ) -> TopicRetention:
        asked = {
            "retention_ms": retention_ms,
            "retention_bytes": retention_bytes,
            "delete_consumed": delete_consumed,
        }
        found, log = await self._stored(topic)
        retention, now_us = self._broker.retention, self._broker.clock.wall_us()
        policy = (retention.policy_of(found) or Policy()).with_changes(
            {name: value for name, value in asked.items() if value is not None}
        )
        shown = fates(log.refs, policy, now_us, consumed_below(found))
        rows = [
            _fate(fate.ref, fate.leaves_us, fate.reason, deleted_us)
            for fate, deleted_us in zip(shown, retention.deletions(log, shown), strict=True)
        ]
        refs, removals = log.removal.removed
        gone = [removal for removal in removals for _ in range(removal.ledgers)]
        removed = [
            _fate(ref, removal.since_us, None, removal.until_us)
            for ref, removal in zip(refs, gone, strict=True)
        ]
        return TopicRetention(str(found.name), now_us, tuple(removed), tuple(rows))

    @handles(TopicOperations.undo_retention)
    async def undo_retention(self, topic: str) -> RetentionUndone:
        found, log = await self._stored(topic)
        count = await self._broker.retention.restore(found)
        return RetentionUndone(str(found.name), count, log.start)

    async def _stored(self, topic: str) -> tuple[Topic, ManagedLedger]:
        found = await self._broker.topic(TopicName.parse(topic), create=False)
        if not isinstance(found.log, ManagedLedger):
            raise Refused(f"{topic} is {found.delivery}: it stores nothing, so nothing is removed")
        return found, found.log

    @handles(TopicOperations.ledgers)
    async def ledgers(self, topic: str) -> TopicLedgers:
        name = TopicName.parse(topic)
        await self._broker.describe(name, create=False, delivery=None)
        found = (await ledgers.get(self._store, name)).list
        return TopicLedgers(str(name), found.epoch, tuple(found.visible))


def _fate(
    ref: ledgers.LedgerRef, leaves_us: int | None, reason: str | None, deleted_us: int | None
) -> LedgerFate:
    return LedgerFate(
        ledger=ref.id,
        first_offset=ref.first_offset,
        last_offset=ref.last_offset,
        bytes=ref.bytes,
        newest_us=max(ref.last_time_us, 0),
        entries=ref.is_local,
        object=ref.tiered is not None,
        leaves_us=leaves_us,
        reason=reason,
        deleted_us=deleted_us,
    )


def _log_of(topic: Topic) -> TopicLog:
    log = topic.log
    stored = log if isinstance(log, ManagedLedger) else None
    return TopicLog(
        topic=str(topic.name),
        start_offset=log.start,
        end_offset=log.end,
        epoch=stored.epoch if stored else 0,
        ledgers=tuple(
            LedgerSpan(ref.id, ref.state, ref.first_offset, ref.last_offset, ref.bytes)
            for ref in (stored.refs if stored else ())
        ),
        producers=tuple(sorted(topic.producers)),
        subscriptions=tuple(map(subscription_row, topic.subscriptions.values())),
        counters=asdict(topic.counters),
        compacted_to=stored.compaction.cleaned if stored else 0,
    )
