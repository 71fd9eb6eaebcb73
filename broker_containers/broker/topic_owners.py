"""Which topics a broker serves, and where the others are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from broker_containers.topics.single_publish import MakeFrame
from sulina.metadata.store import Compare
from sulina.names import TopicName


@dataclass(frozen=True, slots=True)
class TopicAddress:
    """Where a topic is served: the URL, empty for this broker, and the broker's id if the URL
    leads to several brokers."""

    url: str = ""
    broker: str = ""
    grpc: str = ""
    """The owner's URL for Danube's clients, if it is another broker and has one."""


HERE = TopicAddress()


class TopicOwners(Protocol):
    """Decides which topics this broker serves."""

    def check(self, topic: TopicName) -> None:
        """Raise ``Retriable`` unless this broker owns ``topic``."""
        ...

    def guards(self, topic: TopicName) -> Sequence[Compare]:
        """Conditions on the metadata under which this broker may take over ``topic``'s log.

        Raises ``Retriable`` as ``check`` does.
        """
        ...

    async def serves(self, topic: TopicName) -> bool:
        """Whether this broker serves ``topic``; waits until the topic has an owner."""
        ...

    async def address_of(self, topic: TopicName, *, direct: bool = False) -> TopicAddress:
        """Where clients find the broker that serves ``topic``; waits until it has an owner.

        Clients that can reach each broker directly get the owner's own address.
        """
        ...

    async def release(self, topic: TopicName) -> None:
        """Make the owner release a topic that is being deleted."""
        ...

    async def publish_elsewhere(
        self, topic: TopicName, partitions: int, producer: str, make: MakeFrame
    ) -> bool:
        """Publish a frame durably through its owner; False if this broker serves ``topic``."""
        ...


class OwnsEveryTopic:
    """For a single broker: it serves every topic."""

    def check(self, topic: TopicName) -> None: ...

    def guards(self, topic: TopicName) -> Sequence[Compare]:
        return ()

    async def serves(self, topic: TopicName) -> bool:
        return True

    async def address_of(self, topic: TopicName, *, direct: bool = False) -> TopicAddress:
        return HERE

    async def release(self, topic: TopicName) -> None: ...

    async def publish_elsewhere(
        self, topic: TopicName, partitions: int, producer: str, make: MakeFrame
    ) -> bool:
        return False
