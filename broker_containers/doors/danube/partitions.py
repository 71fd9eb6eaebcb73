"""Partitioned topics of stock clients, which create them one partition at a time.

A client never states the number of partitions, so the partitioned topic grows with each of them.
The result is the same as a topic created with all its partitions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.topic_locations import topic_record
from sulina.errors import AlreadyExists, NotFound, Refused
from sulina.model import Action, Delivery
from sulina.names import MAX_PARTITIONS, TopicName

_MOST_BY_PRODUCERS: Final = 64
"""Maximum number of partitions that producers create without the right to administer the topic:
every new partition changes where keys go."""


async def ensure_partition(
    broker: Broker, name: TopicName, delivery: Delivery, may_manage: Callable[[TopicName], bool]
) -> None:
    """Grow the partitioned topic until it has ``name``, if that is the name of a partition.

    ``may_manage`` says whether the caller may administer a topic. Raises ``AlreadyExists`` if a
    topic without partitions has the partitioned topic's name, and ``Refused`` if the topic would
    get too many partitions.
    """
    split = name.partition_of
    if split is None or not broker.settings.auto_create_topics:
        return
    base, number = split
    if number >= MAX_PARTITIONS:
        return
    if await partitions_of(broker, name):
        return
    if number >= _MOST_BY_PRODUCERS and not may_manage(base):
        raise Refused(
            f"{name} would give {base} {number + 1} partitions, and producers create at most "
            f"{_MOST_BY_PRODUCERS}: create the topic with `sulina topic create --partitions`, or "
            f"grant {Action.TOPICS}:{base}"
        )
    try:
        await broker.create_topic(base, delivery, number + 1)
    except AlreadyExists:
        await broker.grow_topic(base, number + 1)


async def partitions_of(broker: Broker, name: TopicName) -> list[str]:
    """The topics to consume for ``name``: its partitions, or itself; empty if it does not exist."""
    try:
        record = await topic_record(broker, name)
    except NotFound:
        return []
    return [str(name.partition(n)) for n in range(record.partitions)] or [str(name)]
