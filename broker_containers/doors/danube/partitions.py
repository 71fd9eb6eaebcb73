"""Partitioned topics of stock clients: they create partition by partition, and never say how many.

So the topic that the partitions are of grows with them, and is the same as one that was made whole.
"""

from __future__ import annotations

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.topic_locations import topic_record
from sulina.errors import AlreadyExists, NotFound
from sulina.metadata.keys import topic_lifecycle
from sulina.model import Delivery
from sulina.names import MAX_PARTITIONS, TopicName


async def make_room(broker: Broker, name: TopicName, delivery: Delivery) -> None:
    """Let ``name`` be a partition of its topic, if it is the name of one and not there yet.

    Raises ``AlreadyExists`` if there is a topic in its place that has no partitions.
    """
    split = name.partition_of
    if split is None or not broker.settings.auto_create_topics:
        return
    base, number = split
    if number >= MAX_PARTITIONS:
        return
    if await partitions_of(broker, name):
        return
    try:
        await broker.create_topic(base, delivery, number + 1)
    except AlreadyExists:
        await topic_lifecycle.grow(broker.store, base, number + 1)


async def partitions_of(broker: Broker, name: TopicName) -> list[str]:
    """The topics to consume for ``name``: its partitions, itself, or none if it does not exist."""
    try:
        record = await topic_record(broker, name)
    except NotFound:
        return []
    return [str(name.partition(n)) for n in range(record.partitions)] or [str(name)]
