"""The consumers of stock clients on this broker, by number.

A client whose stream broke opens another one with the same number, here or on the broker that
serves the topic now, and receives unacknowledged messages again.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.client_numbers import consumer_number
from broker_containers.doors.danube.consumer import DanubeConsumer
from broker_containers.doors.danube.consumer_directory import ConsumerDirectory
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.doors.danube.tracing import DeliverySpans
from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topics.topic import Topic
from sulina.errors import Overloaded, Retriable
from sulina.metadata.keys.danube_consumers import ConsumerRecord
from sulina.model import Delivery, Start
from sulina.names import TopicName

_MOST_REASON: Final = 1000
_FORGOTTEN_AT_ONCE: Final = 64


@dataclass(slots=True)
class _Session:
    record: ConsumerRecord
    consumer: DanubeConsumer
    seen: float


class Consumers:
    """All consumers of this door."""

    def __init__(
        self,
        broker: Broker,
        directory: ConsumerDirectory,
        broker_url: str,
        settings: DanubeSettings,
    ) -> None:
        self._broker = broker
        self._directory = directory
        self._broker_url = broker_url
        self._settings = settings
        self._here: dict[int, _Session] = {}
        self._acks: dict[Subscription, list[int]] = {}
        """Of this turn of the event loop."""
        self._named: dict[tuple[str, str], list[int]] = {}
        """The same offsets by the names of topic and subscription."""
        self._spans = DeliverySpans()

    def __len__(self) -> int:
        return len(self._here)

    async def subscribe(self, record: ConsumerRecord, principal: str) -> int:
        """Attach a consumer to a subscription, created if it is new; returns its number.

        A consumer that is attached already is replaced. Raises ``NotFound`` if the topic does not
        exist, ``Refused`` if the subscription takes no further consumer.
        """
        number = consumer_number(record.topic, record.subscription, record.name)
        await self._join(number, record, principal)
        await self._directory.note(number, record)
        return number

    async def _join(self, number: int, record: ConsumerRecord, principal: str) -> DanubeConsumer:
        broker = self._broker
        if number not in self._here and len(self._here) >= broker.settings.max_peers:
            raise Overloaded("the broker has too many consumers: try again later")
        topic = await broker.topic(TopicName.parse(record.topic), create=False)
        subscription = await broker.subscriptions.subscribe(
            topic, record.subscription, record.type, Start.latest(), None
        )
        consumer = DanubeConsumer(topic, self._broker_url, self._spans)
        consumer.join(subscription, record.name, record.key_filters, principal)
        self._here[number] = _Session(record, consumer, broker.clock.now())
        return consumer

    async def open(self, number: int, principal: str) -> DanubeConsumer:
        """The consumer for a new stream. Raises ``Retriable`` if the number is unknown."""
        session = self._here.get(number)
        if session is not None:
            session.seen = self._broker.clock.now()
            if session.consumer.gone is None and not session.consumer.streaming:
                return session.consumer
            record: ConsumerRecord | None = session.record
        else:
            record = await self._directory.find(number)
        if record is None:
            raise Retriable(f"consumer {number} is unknown: subscribe again")
        consumer = await self._join(number, record, principal)
        await self._directory.note(number, record)
        return consumer

    def closed(self, number: int, consumer: DanubeConsumer) -> None:
        """A stream ended: its unacknowledged messages go to other consumers."""
        consumer.leave(Retriable("the consumer's stream ended"))
        session = self._here.get(number)
        if session is not None and session.consumer is consumer:
            session.seen = self._broker.clock.now()

    def record_of(self, number: int) -> ConsumerRecord | None:
        """The subscription of a consumer of this broker, or None. Counts as a sign of life."""
        session = self._here.get(number)
        if session is None:
            return None
        session.seen = self._broker.clock.now()
        return session.record

    # ---- acknowledging ----

    async def ack(self, topic: TopicName, subscription: str, offset: int) -> None:
        """Acknowledge a message, whichever consumer it was delivered to, however late."""
        self.ack_now(await self._broker.topic(topic, create=False), subscription, offset)

    def ack_now(self, topic: Topic, subscription: str, offset: int, named: str = "") -> None:
        """The same for an open topic; never waits. Raises ``NotFound``.

        Takes effect at the end of this turn of the event loop: what arrives in one turn is one
        change of the cursor. ``named`` is what the client calls the topic.
        """
        found = _acknowledging(topic, subscription)
        if found is not None:
            if not self._acks:
                asyncio.get_running_loop().call_soon(self._apply_acks)
            offsets = self._acks.setdefault(found, [])
            offsets.append(offset)
            self._named[named, subscription] = offsets

    def ack_again(self, named: str, subscription: str, offset: int) -> bool:
        """The same, if there was such an acknowledgement in this turn already: without looking
        the topic up again. False if there was none."""
        offsets = self._named.get((named, subscription))
        if offsets is not None:
            offsets.append(offset)
        return offsets is not None

    def _apply_acks(self) -> None:
        acks, self._acks = self._acks, {}
        self._named.clear()
        for subscription, offsets in acks.items():
            for member, count in subscription.ack_offsets(offsets):
                _notify(member, count)
            self._spans.acknowledged(subscription, offsets)

    async def nack(
        self, topic: TopicName, subscription: str, offset: int, delay_ms: int, reason: str
    ) -> None:
        """Reject a message; does nothing unless it is delivered to a consumer."""
        found = _acknowledging(await self._broker.topic(topic, create=False), subscription)
        holder = None if found is None else found.holder(offset)
        if found is not None and holder is not None:
            reason = reason[:_MOST_REASON] or "not handled by the consumer"
            found.nack(holder, offset, offset, None, delay_ms, reason)
            self._spans.refused(found, offset, reason)
            _notify(holder, 1)

    # ---- time ----

    async def sweep(self) -> None:
        """Detach consumers that have gone silent, and top up the credit of the others."""
        long_ago = self._broker.clock.now() - self._settings.silent_seconds
        silent: list[int] = []
        for number, session in self._here.items():
            if session.consumer.streaming and session.consumer.gone is None:
                session.consumer.recount()
            elif session.seen < long_ago and len(silent) < _FORGOTTEN_AT_ONCE:
                silent.append(number)
        for number in silent:
            self._here.pop(number).consumer.leave(
                Retriable("the consumer sent nothing for too long")
            )
        for number in silent:
            await self._directory.forget(number)

    def close(self, reason: Retriable) -> None:
        """Detach all consumers, which ends their streams."""
        for session in self._here.values():
            session.consumer.leave(reason)


def _acknowledging(topic: Topic, subscription: str) -> Subscription | None:
    """None for topics without acknowledgements. Raises ``NotFound``."""
    return topic.subscription(subscription) if topic.delivery is Delivery.RELIABLE else None


def _notify(holder: AttachedConsumer, count: int) -> None:
    if isinstance(holder.sink, DanubeConsumer):
        holder.sink.settled(count)
