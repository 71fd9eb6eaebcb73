"""Partitioned topics of stock clients, which create them one partition at a time.

A client never states the number of partitions, so the partitioned topic grows with each of them.
The result is the same as a topic created with all its partitions. More partitions change where keys
go, so this takes the right to manage the topic.
"""

from __future__ import annotations

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.topic_locations import topic_record
from broker_containers.security.access import Access, of_topic
from broker_containers.security.errors import Denied
from sulina.errors import AlreadyExists, NotFound
from sulina.model import Action, Delivery
from sulina.names import MAX_PARTITIONS, TopicName


async def ensure_partition(
    broker: Broker, access: Access, name: TopicName, delivery: Delivery
) -> None:
    """Grow the partitioned topic until it has ``name``, if that is the name of a partition.

    Raises ``Denied`` unless the caller may manage the partitioned topic, and ``AlreadyExists`` if a
    topic without partitions has its name.
    """
    split = name.partition_of
    if split is None or not broker.settings.auto_create_topics:
        return
    base, number = split
    if number >= MAX_PARTITIONS:
        return
    if await partitions_of(broker, name):
        return
    if not access.allows(of_topic(Action.TOPICS, base)):
        raise Denied(
            f"{name} does not exist, and {access.principal!r} may not add partitions to {base}: "
            f"create it with `sulina topic create {base} --partitions N`, or grant "
            f"{Action.TOPICS}:{base}"
        )
    try:
        await broker.creation.create(base, delivery, number + 1)
    except AlreadyExists:
        await broker.creation.grow(base, number + 1)


async def partitions_of(broker: Broker, name: TopicName) -> list[str]:
    """The topics to consume for ``name``: its partitions, or itself; empty if it does not exist."""
    try:
        record = await topic_record(broker, name)
    except NotFound:
        return []
    return [str(name.partition(n)) for n in range(record.partitions)] or [str(name)]
