"""The producers of stock clients at this broker, found by number or by name.

Clients never say that they leave: one that is not heard of for a while is detached. And they never
need to say that they come back: a message names its topic and producer, which is all it takes.
"""

from __future__ import annotations

import asyncio

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.client_numbers import producer_number
from broker_containers.doors.danube.producer import DanubeProducer
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.schemas.checks import SchemaChecks
from sulina.errors import Overloaded
from sulina.model import Delivery
from sulina.names import TopicName


class Producers:
    """All producers that came through this door."""

    def __init__(
        self, broker: Broker, settings: DanubeSettings, schemas: SchemaChecks | None
    ) -> None:
        self._broker = broker
        self._schemas = schemas
        self._settings = settings
        self._producers: dict[int, DanubeProducer] = {}
        self._by_name: dict[tuple[str, str], DanubeProducer] = {}
        """The same again, for messages: they name their producer, which is looked up for each."""
        self._attaching: dict[int, asyncio.Task[DanubeProducer]] = {}

    def known(self, number: int) -> bool:
        """Whether a producer is attached here; it is heard of with that."""
        end = self._producers.get(number)
        if end is None or end.gone is not None:
            return False
        end.seen = self._broker.clock.now()
        return True

    def attached(self, topic: str, name: str) -> DanubeProducer | None:
        """A producer that is attached here, by the names in a message."""
        end = self._by_name.get((topic, name))
        return None if end is None or end.gone is not None else end

    async def create(
        self, topic: TopicName, name: str, delivery: Delivery, subject: str, *, exclusive: bool
    ) -> int:
        """Attach a producer, whether or not it is attached already; its number.

        The first one with a schema ``subject`` binds the topic to it.
        """
        if subject and self._schemas is not None:
            await self._schemas.registry.topics.bind(topic, subject)
        await self._attach(topic, name, delivery, exclusive=exclusive)
        return producer_number(str(topic), name)

    async def at(self, topic: TopicName, name: str) -> DanubeProducer:
        """A producer that sends: attached, perhaps anew.

        Raises ``Retriable`` if the topic is served elsewhere, ``Refused`` if another client took
        the name in a way that excludes this one.
        """
        end = self._producers.get(producer_number(str(topic), name))
        if end is not None and (end.gone is None or end.replaced):
            end.seen = self._broker.clock.now()
            return end
        return await self._attach(topic, name, None, exclusive=False)

    async def _attach(
        self, topic: TopicName, name: str, delivery: Delivery | None, *, exclusive: bool
    ) -> DanubeProducer:
        number = producer_number(str(topic), name)
        task = self._attaching.get(number)
        if task is None:
            work = self._attach_once(number, topic, name, delivery, exclusive=exclusive)
            task = asyncio.create_task(work)
            self._attaching[number] = task
            task.add_done_callback(lambda _: self._attaching.pop(number, None))
        # Shielded: a client that gives up must not stop another that wants the same.
        return await asyncio.shield(task)

    async def _attach_once(
        self,
        number: int,
        name: TopicName,
        producer: str,
        delivery: Delivery | None,
        *,
        exclusive: bool,
    ) -> DanubeProducer:
        broker = self._broker
        topic = await broker.topic(name, create=delivery is not None, delivery=delivery)
        end = self._producers.get(number)
        if end is None or end.gone is not None or end.topic is not topic:
            if end is None and len(self._producers) >= broker.settings.max_peers:
                raise Overloaded("the broker has too many producers: try again later")
            gate = None if self._schemas is None else self._schemas.of(topic)
            end = DanubeProducer(topic, broker.ledgers, broker.clock, self._settings, gate)
            await end.attach(producer, broker.clock.wall_us(), exclusive=exclusive)
            self._producers[number] = self._by_name[str(name), producer] = end
        end.seen = broker.clock.now()
        return end

    def sweep(self) -> None:
        """Let those go that are not heard of any more."""
        long_ago = self._broker.clock.now() - self._settings.silent_seconds
        for number, end in list(self._producers.items()):
            if end.idle and end.seen < long_ago:
                end.detach()
                del self._producers[number]
                self._by_name.pop((str(end.topic.name), end.name), None)

    async def close(self) -> None:
        """Let all go."""
        tasks = list(self._attaching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for end in self._producers.values():
            end.detach()
        self._producers.clear()
        self._by_name.clear()
