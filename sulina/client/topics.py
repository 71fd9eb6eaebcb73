"""Looks up topics: their partitions, their delivery guarantee, and the broker that serves them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from sulina.client.address import Address, parse_addresses
from sulina.client.connection import Connection
from sulina.client.pool import Pool
from sulina.client.translate import delivery_from_wire, delivery_to_wire
from sulina.model import Delivery
from sulina.names import TopicName
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic's description, as returned by ``Client.topic``."""

    name: str
    """The full name: ``/namespace/topic``."""
    partitions: tuple[str, ...]
    """The full names of its partitions, in order; empty if the topic is not partitioned."""
    delivery: Delivery
    """What the topic guarantees."""

    @property
    def parts(self) -> tuple[tuple[str, int | None], ...]:
        """Name and number of each partition, or the topic itself with None."""
        if not self.partitions:
            return ((self.name, None),)
        return tuple((name, number) for number, name in enumerate(self.partitions))


class TopicLookup:
    """Lookups over a connection pool. Each is one round trip, bounded by the operation timeout."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def describe(
        self, topic: str, *, create: bool = False, delivery: Delivery | None = None
    ) -> TopicInfo:
        """Describe ``topic``. Raises ``NotFound`` if it does not exist and ``create`` is false."""
        _, result = await self._look_up(topic, create, delivery)
        name = TopicName.parse(topic)
        partitions = tuple(str(name.partition(number)) for number in range(result.partitions))
        return TopicInfo(str(name), partitions, delivery_from_wire(result.delivery))

    async def owner(
        self, topic: str, *, create: bool = False, delivery: Delivery | None = None
    ) -> Connection:
        """A connection to the broker that currently serves ``topic``."""
        connection, result = await self._look_up(topic, create, delivery)
        address = _address(result)
        return connection if address is None else await self._pool.to(address)

    async def pause(self, seconds: float) -> None:
        """Wait before the next attempt, or until a new connection is established."""
        await self._pool.pause(seconds)

    async def _look_up(
        self, topic: str, create: bool, delivery: Delivery | None
    ) -> tuple[Connection, pb.LookupResult]:
        connection = await self._pool.any()
        body = pb.Lookup(topic=topic, create=create, delivery=delivery_to_wire(delivery))
        _, result = await connection.request(Command.LOOKUP, body, pb.LookupResult)
        return connection, result


async def look_up_at(connection: Connection, topic: str) -> Address | None:
    """The address of the owner of ``topic`` according to that broker; None if it is the owner."""
    _, result = await connection.request(
        Command.LOOKUP, pb.Lookup(topic=topic, create=False), pb.LookupResult
    )
    return _address(result)


def _address(result: pb.LookupResult) -> Address | None:
    if not result.url:
        return None
    return replace(parse_addresses(result.url)[0], broker=result.broker)
