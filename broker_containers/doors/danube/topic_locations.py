"""Which broker serves a topic, and the URLs that Danube's clients are given for it."""

from __future__ import annotations

import math

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from sulina.errors import NotFound, Unavailable
from sulina.metadata.keys import topics
from sulina.metadata.keys.topics import TopicRecord
from sulina.names import TopicName


async def topic_record(broker: Broker, topic: TopicName) -> TopicRecord:
    """The record of an existing topic. Raises ``NotFound``, which clients do not retry.

    So before raising it, this reads the metadata store: the broker's cache may be out of date.
    """
    try:
        return await broker.describe(topic, create=False, delivery=None)
    except NotFound:
        found = await topics.get(broker.store, topic)
        if found is None:
            raise
        return found


class TopicLocations:
    """``own_url`` is this broker's; ``proxy_url`` the shared one of all brokers, or empty.

    Clients that call ``shared_name`` get ``shared_url`` in its place.
    """

    def __init__(
        self,
        broker: Broker,
        own_url: str,
        proxy_url: str,
        shared_name: str = "",
        shared_url: str = "",
    ) -> None:
        self._broker = broker
        self.own_url = own_url
        self.proxy_url = proxy_url
        self._shared_name = shared_name
        self._shared_url = shared_url
        self.asked = -math.inf
        """When a client last needed to know where a topic is."""

    async def owner(self, topic: TopicName, *, for_health_check: bool = False) -> str:
        """The URL of the broker that serves ``topic``; empty for this broker.

        Waits until the topic has an owner; raises ``Retriable`` if that takes too long. A health
        check does not count as asking: some clients repeat it forever at each former owner.
        """
        if not for_health_check:
            self.asked = self._broker.clock.now()
        if await self._broker.serves(topic):
            return ""
        place = await self._broker.address_of(topic)
        if not place.grpc:
            raise Unavailable(
                f"the broker that serves {topic} has no port for Danube's clients: start it with "
                "--grpc-port"
            )
        return place.grpc

    async def exists(self, topic: TopicName) -> bool:
        """Whether the topic exists. Raises ``Retriable`` if the store can't be read."""
        try:
            await topic_record(self._broker, topic)
        except NotFound:
            return False
        return True

    def proxy_for(self, host: str) -> str:
        """The one URL that leads to all brokers, for a client that called ``host``; or empty."""
        if self._shared_name and host == self._shared_name:
            return self._shared_url
        return self.proxy_url

    async def lookup(self, topic: TopicName, host: str = "") -> pb.TopicLookupResponse:
        """The reply to a lookup by a client that called ``host``. Raises ``NotFound`` if the topic
        does not exist."""
        record = await topic_record(self._broker, topic)
        # A partitioned topic itself has no owner; every broker can list its partitions.
        owner = "" if record.partitions else await self.owner(topic)
        broker_url = owner or self.own_url
        connect_url = self.proxy_for(host) or broker_url
        kinds = pb.TopicLookupResponse
        return pb.TopicLookupResponse(
            response_type=kinds.Redirect if owner else kinds.Connect,
            connect_url=connect_url,
            broker_url=broker_url,
            proxy=connect_url != broker_url,
        )
