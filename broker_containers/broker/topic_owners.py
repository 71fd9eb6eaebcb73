"""Which topics a broker serves, and where the others are: the broker's view of its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_containers.topics.single_publish import MakeFrame
from sulina.metadata.store import Compare
from sulina.names import TopicName


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """Where a topic is served: the URL, empty for this broker; and whom to ask for there, if the
    URL is that of several brokers."""

    url: str = ""
    broker: str = ""
    grpc: str = ""
    """Where the owner's door for Danube's clients is, if it is another broker and has one."""


HERE = TopicAddress()


class TopicOwners(Protocol):
    """Says which topics this broker serves."""

    def check(self, topic: TopicName) -> None:
        """Raise ``Retriable`` unless this broker shall serve ``topic`` now."""
        ...

    def guards(self, topic: TopicName) -> Sequence[Compare]:
        """What must hold in the metadata when this broker takes over ``topic``'s log.

        Raises ``Retriable`` as ``check`` does.
        """
        ...

    async def serves(self, topic: TopicName) -> bool:
        """Whether this broker serves ``topic``; waits for it to have an owner."""
        ...

    async def address_of(self, topic: TopicName) -> TopicAddress:
        """Where clients find the broker that serves ``topic``; waits for it to have an owner."""
        ...

    async def release(self, topic: TopicName) -> None:
        """The topic is being deleted: whoever serves it, let go of it."""
        ...

    async def publish_elsewhere(
        self, topic: TopicName, partitions: int, producer: str, make: MakeFrame
    ) -> bool:
        """Publish one frame through another broker, durably; False if this one serves ``topic``."""
        ...


class OwnsEveryTopic:
    """The gate of a broker that is alone: it serves everything."""

    def check(self, topic: TopicName) -> None: ...

    def guards(self, topic: TopicName) -> Sequence[Compare]:
        return ()

    async def serves(self, topic: TopicName) -> bool:
        return True

    async def address_of(self, topic: TopicName) -> TopicAddress:
        return HERE

    async def release(self, topic: TopicName) -> None: ...

    async def publish_elsewhere(
        self, topic: TopicName, partitions: int, producer: str, make: MakeFrame
    ) -> bool:
        return False
