"""Handlers of the operations on a cluster, for a single broker: it is a cluster of one."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from typing import Protocol

from broker_containers.broker.broker import Broker
from broker_containers.operations.running import handles
from broker_containers.security.access import ACTING
from sulina.errors import NotFound
from sulina.metadata.keys import namespaces, topics
from sulina.metadata.keys.members import BrokerMode
from sulina.names import TopicName
from sulina.operations.cluster import (
    BrokerDetails,
    BrokerOperations,
    BrokerRow,
    ClusterDetails,
    ClusterOperations,
    MetadataContact,
)
from sulina.operations.topics import TopicLocation, TopicOperations, TopicOwner
from sulina.version import __version__

_MOST_OWNED = 1000


class BrokerUrls(Protocol):
    """Where the doors of the broker are reached."""

    @property
    def url(self) -> str: ...

    @property
    def http_url(self) -> str: ...

    @property
    def danube_admin_url(self) -> str: ...

    @property
    def grpc_url(self) -> str: ...


class SingleBrokerHandlers:
    """The only broker: it leads, and serves every topic."""

    def __init__(self, broker: Broker, urls: BrokerUrls) -> None:
        self._broker = broker
        self._urls = urls
        self._started = broker.clock.wall_us()

    def _row(self) -> BrokerRow:
        return BrokerRow(
            broker=self._broker.settings.broker_id,
            url=self._urls.url,
            http=self._urls.http_url,
            admin=self._urls.danube_admin_url,
            grpc=self._urls.grpc_url,
            version=__version__,
            started_us=self._started,
            labels=(),
            mode=BrokerMode.ACTIVE,
            leader=True,
            topics=sum(1 for _ in self._broker.loaded()),
        )

    @handles(ClusterOperations.describe)
    async def describe_cluster(self) -> ClusterDetails:
        row = self._row()
        return ClusterDetails(
            leader=row.broker,
            term=0,
            answered_by=row.broker,
            revision=0,
            topics=row.topics,
            unassigned=0,
            moving=0,
            brokers=(row,),
        )

    @handles(ClusterOperations.standing)
    async def standing(self) -> MetadataContact:
        return MetadataContact(self._row().broker, in_touch=True, revision=0)

    @handles(BrokerOperations.list)
    async def list_brokers(self) -> tuple[BrokerRow, ...]:
        return (self._row(),)

    @handles(BrokerOperations.describe)
    async def describe_broker(self, broker: str) -> BrokerDetails:
        row = self._row()
        if broker != row.broker:
            raise NotFound(f"there is no broker {broker!r}: the only one is {row.broker}")
        owns = filter(ACTING.get().sees, sorted(str(each.name) for each in self._broker.loaded()))
        return BrokerDetails(**asdict(row), load=None, owns=tuple(islice(owns, _MOST_OWNED)))

    @handles(TopicOperations.lookup)
    async def lookup(self, topic: str) -> TopicLocation:
        name = TopicName.parse(topic)
        await self._broker.describe(name, create=False, delivery=None)
        row = self._row()
        return TopicLocation(str(name), row.broker, 0, None, row.url, row.http)

    @handles(TopicOperations.owners)
    async def owners(
        self, *, namespace: str | None = None, broker: str | None = None
    ) -> tuple[TopicOwner, ...]:
        store, me = self._broker.store, self._row().broker
        if broker not in (None, me):
            return ()
        names = [namespace] if namespace else await namespaces.list_names(store)
        found = [
            TopicOwner(str(topic), me, None)
            for name in names
            for topic, record in (await topics.list_all(store, name)).items()
            if not record.partitions
        ]
        return tuple(found)
