"""The cluster as Danube's services see it: brokers, and which topic is served by which.

A single broker is a cluster of one: it leads, and serves every topic.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from broker_containers.doors.grpc_shared.names import BadRequest
from broker_containers.operations.running import Operations
from sulina.errors import NotFound
from sulina.metadata.keys.members import BrokerMode
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.cluster import BrokerRow
from sulina.operations.topics import TopicOperations

_LARGEST: Final = (1 << 64) - 1


def number_of(broker: str) -> int:
    """The number of a broker, where Danube's protocol has no field for an id; never 0: no broker.

    An id that is a number is that number. Any other number is derived from the id, so that it is
    the same on every broker and after every restart.
    """
    if broker.isascii() and broker.isdecimal() and 0 < int(broker) <= _LARGEST:
        return int(broker)
    return int.from_bytes(hashlib.sha256(broker.encode()).digest()[:8], "big") or 1


def status_of_broker(row: BrokerRow) -> str:
    """In Danube's words: a broker that is being emptied is draining, then drained."""
    if row.mode is BrokerMode.DRAINING and not row.topics:
        return "drained"
    return row.mode.value


@dataclass(frozen=True, slots=True)
class ServedTopic:
    """A topic that holds messages itself: a partition, or a topic without partitions."""

    topic: str
    delivery: Delivery


class ClusterMap:
    """Looks brokers and topics up."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._admin = operations.client

    @property
    def clustered(self) -> bool:
        """Whether this is a broker of a cluster."""
        return self._operations.serves(TopicOperations.move)

    async def brokers(self) -> tuple[BrokerRow, ...]:
        """The running brokers, by id."""
        return await self._admin.brokers.list()

    async def broker(self, named: str) -> BrokerRow:
        """The broker with this id, or with this number. Raises ``BadRequest``, ``NotFound``."""
        if not named:
            raise BadRequest("broker_id is missing: ListBrokers lists the ids")
        found = await self.brokers()
        for row in found:
            if row.broker == named:
                return row
        for row in found:
            if str(number_of(row.broker)) == named:
                return row
        raise NotFound(f"no broker {named!r} is running: ListBrokers lists those that are")

    async def owners(
        self, *, namespace: str | None = None, broker: str | None = None
    ) -> dict[str, str]:
        """Topic -> broker, for one namespace or broker or for all.

        In a cluster only topics that have been used have an owner.
        """
        rows = await self._admin.topics.owners(namespace=namespace, broker=broker)
        return {row.topic: row.broker for row in rows}

    async def topics(self, namespaces: Iterable[str]) -> list[ServedTopic]:
        """The topics of these namespaces, each partition on its own."""
        return [
            ServedTopic(row.topic, row.delivery)
            for namespace in namespaces
            for row in await self._admin.topics.list(namespace=namespace, all=True)
            if not row.partitions
        ]

    async def topics_of(self, broker: str) -> list[ServedTopic]:
        """The topics that a broker serves."""
        owned = await self.owners(broker=broker)
        namespaces = sorted({TopicName.parse(topic).namespace for topic in owned})
        return [found for found in await self.topics(namespaces) if found.topic in owned]
