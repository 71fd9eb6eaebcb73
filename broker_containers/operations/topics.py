"""Handlers of the operations on namespaces and topics, and of a broker's own numbers.

A changed limit is durable when its operation returns. It applies to what happens from then on:
producers and consumers that are connected stay.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Unpack

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.operations.subscriptions import subscription_row
from broker_containers.operations.topic_rows import parts_of, topic_rows
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.topic import Topic
from sulina.metadata.keys import ledgers, namespaces, topics
from sulina.metadata.keys.policy import Policy
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.cluster import BrokerOperations, BrokerStats
from sulina.operations.topics import (
    LedgerSpan,
    NamespaceDetails,
    NamespaceLimits,
    NamespaceOperations,
    TopicCreated,
    TopicDetails,
    TopicLedgers,
    TopicLimits,
    TopicLog,
    TopicOperations,
    TopicRow,
)


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
        return tuple(await namespaces.list_names(self._store))

    @handles(NamespaceOperations.create)
    async def create_namespace(self, namespace: str) -> None:
        await namespaces.create(self._store, namespace, Policy())

    @handles(NamespaceOperations.delete)
    async def delete_namespace(self, namespace: str) -> None:
        await namespaces.delete(self._store, namespace)

    @handles(NamespaceOperations.describe)
    async def describe_namespace(self, namespace: str) -> NamespaceDetails:
        policy = await namespaces.get_policy(self._store, namespace)
        found = await topics.list_all(self._store, namespace)
        return NamespaceDetails(namespace, len(found), policy)

    @handles(NamespaceOperations.policy)
    async def namespace_policy(self, namespace: str, **limits: Unpack[NamespaceLimits]) -> Policy:
        if not limits:
            return await namespaces.get_policy(self._store, namespace)
        changed = await namespaces.update_policy(self._store, namespace, limits)
        await self._apply_policies(namespace)
        return changed

    async def _apply_policies(self, namespace: str) -> None:
        async with self._applying:  # one at a time, so that the newest is applied last
            for topic in list(self._broker.loaded()):
                if topic.name.namespace == namespace:
                    topic.policy = await topics.effective_policy(self._store, topic.name)

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
        await self._broker.create_topic(
            name,
            delivery,
            partitions,
            expected_records=expected_records,
            expected_bytes=expected_bytes,
        )
        return TopicCreated(str(name))

    @handles(TopicOperations.delete)
    async def delete(self, topic: str) -> None:
        await self._broker.delete_topic(TopicName.parse(topic))

    @handles(TopicOperations.policy)
    async def policy(self, topic: str, **limits: Unpack[TopicLimits]) -> Policy:
        name = TopicName.parse(topic)
        if limits:
            await topics.update_policy(self._store, name, limits)
            await self._apply_policies(name.namespace)
        return await topics.effective_policy(self._store, name)

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

    @handles(TopicOperations.ledgers)
    async def ledgers(self, topic: str) -> TopicLedgers:
        name = TopicName.parse(topic)
        await self._broker.describe(name, create=False, delivery=None)
        found = (await ledgers.get(self._store, name)).list
        return TopicLedgers(str(name), found.epoch, tuple(found.ledgers))


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
    )
