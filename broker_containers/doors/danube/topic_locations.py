"""Where a topic is served, as Danube's clients are told, and who they are sent to."""

from __future__ import annotations

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube import danube_pb2 as pb
from sulina.errors import NotFound, Unavailable
from sulina.metadata.keys import topics
from sulina.metadata.keys.topics import TopicRecord
from sulina.names import TopicName


async def topic_record(broker: Broker, topic: TopicName) -> TopicRecord:
    """A topic that exists. Raises ``NotFound``, which clients do not repeat.

    So it is not said because of what this broker has in mind, which may be a moment old.
    """
    try:
        return await broker.describe(topic, create=False, delivery=None)
    except NotFound:
        found = await topics.get(broker.store, topic)
        if found is None:
            raise
        return found


class TopicLocations:
    """``own_url`` is this broker's; ``proxy_url`` that of all brokers together, if there is one."""

    def __init__(self, broker: Broker, own_url: str, proxy_url: str) -> None:
        self._broker = broker
        self.own_url = own_url
        self.proxy_url = proxy_url

    async def owner(self, topic: TopicName) -> str:
        """The URL of the broker that serves ``topic``, empty if it is this one.

        Waits for there to be one; raises ``Retriable`` if that takes too long.
        """
        if await self._broker.serves(topic):
            return ""
        place = await self._broker.address_of(topic)
        if not place.grpc:
            raise Unavailable(f"the broker that serves {topic} has no door for Danube's clients")
        return place.grpc

    async def exists(self, topic: TopicName) -> bool:
        """Whether there is such a topic. Raises ``Retriable`` if that can't be known now."""
        try:
            await topic_record(self._broker, topic)
        except NotFound:
            return False
        return True

    async def lookup(self, topic: TopicName) -> pb.TopicLookupResponse:
        """What a lookup answers. Raises ``NotFound`` if there is no such topic."""
        record = await topic_record(self._broker, topic)
        # A partitioned topic itself is nowhere; whoever is asked can tell its partitions.
        owner = "" if record.partitions else await self.owner(topic)
        broker_url = owner or self.own_url
        connect_url = self.proxy_url or broker_url
        kinds = pb.TopicLookupResponse
        return pb.TopicLookupResponse(
            response_type=kinds.Redirect if owner else kinds.Connect,
            connect_url=connect_url,
            broker_url=broker_url,
            proxy=connect_url != broker_url,
        )
