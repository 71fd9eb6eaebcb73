"""TopicAdmin: calls about topics; ``subscriptions`` has the others.

As in Danube, each partition is a topic with its own row. A partitioned topic can be described,
deleted and unloaded as a whole.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.danube_admin.cluster_map import ClusterMap, ServedTopic
from broker_containers.doors.danube_admin.subscriptions import SubscriptionCalls, names_in
from broker_containers.doors.grpc_shared.names import BadRequest, namespace_name, topic_name
from broker_containers.schemas.built_in import ensure_subject
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import Refused, Retriable
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.operations.client import AdminClient

_STRATEGIES: Final = {pb.NonReliable: Delivery.NON_RELIABLE, pb.Reliable: Delivery.RELIABLE}
_WORDS: Final = {
    delivery: pb.DispatchStrategy.Name(number) for number, delivery in _STRATEGIES.items()
}


class TopicAdmin(SubscriptionCalls):
    """The service."""

    def __init__(self, admin: AdminClient, places: ClusterMap, registry: SchemaRegistry) -> None:
        super().__init__(admin)
        self._registry = registry
        self._places = places

    async def list_namespace_topics(self, request: pb.NamespaceRequest) -> Message:
        name = namespace_name(request.name)
        await self._admin.namespaces.policy(name)  # raises if it does not exist
        owners = await self._places.owners(namespace=name)
        return _listed(await self._places.topics([name]), owners)

    async def list_broker_topics(self, request: pb.BrokerRequest) -> Message:
        place = await self._places.broker(request.broker_id)
        found = await self._places.topics_of(place.broker)
        return _listed(found, dict.fromkeys((one.topic for one in found), place.broker))

    async def describe_topic(self, request: pb.DescribeTopicRequest) -> Message:
        name = topic_name(request.name)
        found = await self._admin.topics.describe(str(name))
        serving = {(await self._admin.topics.lookup(log.topic)).broker for log in found.logs}
        answer = pb.DescribeTopicResponse(
            name=found.topic,
            subscriptions=names_in(found),
            broker_id=",".join(sorted(serving)),
            delivery=_WORDS[found.delivery],
        )
        bound = await self._registry.topics.get(name)
        if bound is not None:
            schema = await self._registry.version(bound.subject)
            answer.schema_subject = bound.subject
            answer.schema_id = schema.id
            answer.schema_version = schema.version.number
            answer.schema_type = schema.version.type.value
            answer.compatibility_mode = schema.compatibility.value.upper()  # as Danube
        return answer

    async def create_topic(self, request: pb.NewTopicRequest) -> Message:
        name = topic_name(request.name)
        return await self._create_topic(name, request.dispatch_strategy, 0, request.schema_subject)

    async def create_partitioned_topic(self, request: pb.PartitionedTopicRequest) -> Message:
        name = topic_name(request.base_name)
        if not request.partitions:
            raise BadRequest("a partitioned topic has at least one partition: set partitions")
        return await self._create_topic(
            name, request.dispatch_strategy, request.partitions, request.schema_subject
        )

    async def _create_topic(
        self,
        name: TopicName,
        strategy: pb.DispatchStrategy.ValueType,
        partitions: int,
        subject: str,
    ) -> Message:
        """Create a topic and, with a schema subject, bind it as its first producer would."""
        delivery = _STRATEGIES.get(strategy)
        if delivery is None:
            raise BadRequest(
                f"there is no dispatch_strategy {strategy}: 0 is NonReliable, 1 Reliable"
            )
        if subject:
            await ensure_subject(self._registry, subject)  # raises if it does not exist
        await self._admin.topics.create(str(name), delivery=delivery, partitions=partitions)
        if subject:
            await self._registry.topics.bind(name, subject)
        parts = [name.partition(number) for number in range(partitions)] or [name]
        await asyncio.gather(*map(self._assign, parts))
        return pb.TopicResponse(success=True)

    async def _assign(self, name: TopicName) -> None:
        """Give a topic its broker at once, as Danube does; otherwise its first use would."""
        with suppress(Retriable):
            await self._admin.topics.lookup(str(name))

    async def delete_topic(self, request: pb.TopicRequest) -> Message:
        await self._admin.topics.delete(str(topic_name(request.name)))
        return pb.TopicResponse(success=True)

    async def unload_topic(self, request: pb.TopicRequest) -> Message:
        """Start to move it, partition by partition, to the least loaded of the other brokers."""
        name = topic_name(request.name)
        await self._admin.topics.policy(str(name))  # raises if it does not exist
        if not self._places.clustered:
            raise Refused(f"this is a single broker: no other could serve {name}")
        for owned in await self._places.owners(namespace=name.namespace):
            part = TopicName.parse(owned)
            base = part.partition_of
            if part == name or (base is not None and base[0] == name):
                await self._admin.topics.move(owned)
        return pb.TopicResponse(success=True)


def _listed(found: Iterable[ServedTopic], owners: Mapping[str, str]) -> Message:
    return pb.TopicInfoListResponse(
        topics=[
            pb.TopicInfo(
                name=one.topic, broker_id=owners.get(one.topic, ""), delivery=_WORDS[one.delivery]
            )
            for one in found
        ]
    )
