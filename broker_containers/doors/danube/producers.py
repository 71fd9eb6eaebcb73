"""The producers of stock clients on this broker, by number or by name.

Clients do not announce that they leave: a producer that has been silent for a while is detached. It
is attached again by its next message, which has the names of its topic and producer.
"""

from __future__ import annotations

import asyncio
from functools import partial

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.client_numbers import producer_number
from broker_containers.doors.danube.producer import DanubeProducer
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.doors.danube.topic_publisher import TopicPublisher
from broker_containers.quotas.rates import Subject
from broker_containers.schemas.checks import SchemaChecks
from broker_containers.topics.topic import Topic
from sulina.errors import Overloaded
from sulina.model import Delivery
from sulina.names import TopicName


class Producers:
    """All producers of this door."""

    def __init__(self, broker: Broker, settings: DanubeSettings, schemas: SchemaChecks) -> None:
        self._broker = broker
        self._schemas = schemas
        self._settings = settings
        self._producers: dict[int, DanubeProducer] = {}
        self._by_name: dict[tuple[str, str], DanubeProducer] = {}
        """The same producers by topic and name, for looking up the producer of each message."""
        self._attaching: dict[int, asyncio.Task[DanubeProducer]] = {}
        self._publishers: dict[tuple[Topic, tuple[Subject, ...]], TopicPublisher] = {}
        """Those that have producers."""

    def __len__(self) -> int:
        return len(self._producers)

    def known(self, number: int) -> bool:
        """Whether a producer is attached here. Counts as a sign of life."""
        found = self._producers.get(number)
        if found is None or found.gone is not None:
            return False
        found.seen = self._broker.clock.now()
        return True

    def attached(self, topic: str, name: str) -> DanubeProducer | None:
        """The producer with the names in a message, if it is attached here."""
        found = self._by_name.get((topic, name))
        return None if found is None or found.gone is not None else found

    async def create(
        self,
        topic: TopicName,
        name: str,
        delivery: Delivery,
        subject: str,
        *,
        exclusive: bool,
        principal: str,
    ) -> int:
        """Attach a producer unless it is attached already; returns its number.

        The first producer with a schema ``subject`` binds the topic to it.
        """
        if subject:
            await self._schemas.registry.topics.bind(topic, subject)
        await self._attach(topic, name, delivery, principal, exclusive=exclusive)
        return producer_number(str(topic), name)

    async def at(self, topic: TopicName, name: str, principal: str) -> DanubeProducer:
        """The producer for a message, attached again if necessary.

        Raises ``Retriable`` if another broker serves the topic, ``Refused`` if another client holds
        the name exclusively.
        """
        found = self._producers.get(producer_number(str(topic), name))
        if found is not None and (found.gone is None or found.replaced):
            found.seen = self._broker.clock.now()
            return found
        return await self._attach(topic, name, None, principal, exclusive=False)

    async def _attach(
        self,
        topic: TopicName,
        name: str,
        delivery: Delivery | None,
        principal: str,
        *,
        exclusive: bool,
    ) -> DanubeProducer:
        number = producer_number(str(topic), name)
        task = self._attaching.get(number)
        if task is None:
            work = self._attach_once(number, topic, name, delivery, principal, exclusive=exclusive)
            task = asyncio.create_task(work)
            self._attaching[number] = task
            task.add_done_callback(lambda _: self._attaching.pop(number, None))
        # Shielded: others may wait for the same producer when this caller is cancelled.
        return await asyncio.shield(task)

    async def _attach_once(
        self,
        number: int,
        name: TopicName,
        producer: str,
        delivery: Delivery | None,
        principal: str,
        *,
        exclusive: bool,
    ) -> DanubeProducer:
        broker = self._broker
        topic = await broker.topic(name, create=delivery is not None, delivery=delivery)
        found = self._producers.get(number)
        if found is None or found.gone is not None or found.topic is not topic:
            if found is None and len(self._producers) >= broker.settings.max_peers:
                raise Overloaded("the broker has too many producers: try again later")
            check = self._schemas.of(topic)
            found = DanubeProducer(topic, check, broker.clock.now())
            await found.attach(producer, self._publisher, exclusive=exclusive, principal=principal)
            self._producers[number] = self._by_name[str(name), producer] = found
        found.seen = broker.clock.now()
        return found

    def _publisher(self, topic: Topic, where: tuple[Subject, ...]) -> TopicPublisher:
        """What publishes for the producers of a topic that count in the same quotas."""
        publishers, place = self._publishers, (topic, where)
        found = publishers.get(place)
        if found is None:
            broker = self._broker
            found = publishers[place] = TopicPublisher(
                topic, where, broker.ledgers, broker.clock, partial(publishers.__delitem__, place)
            )
        return found

    def sweep(self) -> None:
        """Detach producers that have gone silent."""
        long_ago = self._broker.clock.now() - self._settings.silent_seconds
        for number, found in list(self._producers.items()):
            if found.idle and found.seen < long_ago:
                found.detach()
                del self._producers[number]
                self._by_name.pop((str(found.topic.name), found.name), None)

    async def close(self) -> None:
        """Detach all producers."""
        tasks = list(self._attaching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for found in self._producers.values():
            found.detach()
        self._producers.clear()
        self._by_name.clear()
