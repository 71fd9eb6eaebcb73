"""The consumers of stock clients at this broker, found by number.

A client whose stream broke opens another one with the same number, here or at the broker that
serves the topic now; it gets again what it had not acknowledged.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.doors.danube.client_numbers import consumer_number
from broker_containers.doors.danube.consumer import DanubeConsumer
from broker_containers.doors.danube.consumer_directory import ConsumerDirectory
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.subscription import Subscription
from sulina.errors import Overloaded, Retriable
from sulina.metadata.keys.danube_consumers import ConsumerRecord
from sulina.model import Delivery, Start
from sulina.names import TopicName

_MOST_REASON: Final = 1000
_FORGOTTEN_AT_ONCE: Final = 64


@dataclass(slots=True)
class _Session:
    record: ConsumerRecord
    end: DanubeConsumer
    seen: float


class Consumers:
    """All consumers that came through this door."""

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

    async def subscribe(self, record: ConsumerRecord) -> int:
        """Take a place in a subscription, made if it is new; the consumer's number.

        The same consumer again takes over from itself. Raises ``NotFound`` if there is no such
        topic, ``Refused`` if the subscription has no place for it.
        """
        number = consumer_number(record.topic, record.subscription, record.name)
        await self._join(number, record)
        await self._directory.note(number, record)
        return number

    async def _join(self, number: int, record: ConsumerRecord) -> DanubeConsumer:
        broker = self._broker
        if number not in self._here and len(self._here) >= broker.settings.max_peers:
            raise Overloaded("the broker has too many consumers: try again later")
        topic = await broker.topic(TopicName.parse(record.topic), create=False)
        subscription = await broker.subscriptions.subscribe(
            topic, record.subscription, record.type, Start.latest(), None
        )
        topic.check_consumer(subscription, record.name)
        end = DanubeConsumer(topic, self._broker_url, self._settings)
        limit = topic.policy.max_consumers_per_subscription
        end.join(subscription, record.name, record.key_filters, limit)
        self._here[number] = _Session(record, end, broker.clock.now())
        return end

    async def open(self, number: int) -> DanubeConsumer:
        """A consumer whose stream begins. Raises ``Retriable`` if nobody knows it."""
        session = self._here.get(number)
        if session is not None:
            session.seen = self._broker.clock.now()
            if session.end.gone is None and not session.end.streaming:
                return session.end
            record: ConsumerRecord | None = session.record
        else:
            record = await self._directory.find(number)
        if record is None:
            raise Retriable(f"consumer {number} is not known here: subscribe again")
        end = await self._join(number, record)
        await self._directory.note(number, record)
        return end

    def closed(self, number: int, end: DanubeConsumer) -> None:
        """A stream ended: others get what it left."""
        end.leave(Retriable("the consumer's stream ended"))
        session = self._here.get(number)
        if session is not None and session.end is end:
            session.seen = self._broker.clock.now()

    def topic_of(self, number: int) -> TopicName | None:
        """The topic of a consumer that was here, heard of with that."""
        session = self._here.get(number)
        if session is None:
            return None
        session.seen = self._broker.clock.now()
        return TopicName.parse(session.record.topic)

    # ---- acknowledging ----

    async def ack(self, topic: TopicName, subscription: str, offset: int) -> None:
        """A message is done, whoever had it and however late the word comes."""
        found = await self._subscription(topic, subscription)
        if found is not None:
            holder = found.holder(offset)
            found.ack(holder or _NOBODY, offset, offset, None)
            _tell(holder)

    async def nack(
        self, topic: TopicName, subscription: str, offset: int, delay_ms: int, reason: str
    ) -> None:
        """A message could not be handled; nothing happens if nobody has it."""
        found = await self._subscription(topic, subscription)
        holder = None if found is None else found.holder(offset)
        if found is not None and holder is not None:
            reason = reason[:_MOST_REASON] or "not handled by the consumer"
            found.nack(holder, offset, offset, None, delay_ms, reason)
            _tell(holder)

    async def _subscription(self, name: TopicName, subscription: str) -> Subscription | None:
        """None where nothing is acknowledged. Raises ``NotFound``."""
        topic = await self._broker.topic(name, create=False)
        if topic.delivery is not Delivery.RELIABLE:
            return None
        return topic.subscription(subscription)

    # ---- time ----

    async def sweep(self) -> None:
        """Let those go that are not heard of any more, and recount what the others may have."""
        long_ago = self._broker.clock.now() - self._settings.silent_seconds
        silent: list[int] = []
        for number, session in self._here.items():
            if session.end.streaming and session.end.gone is None:
                session.end.recount()
            elif session.seen < long_ago and len(silent) < _FORGOTTEN_AT_ONCE:
                silent.append(number)
        for number in silent:
            self._here.pop(number).end.leave(Retriable("the consumer was not heard of"))
        for number in silent:
            await self._directory.forget(number)

    def close(self, reason: Retriable) -> None:
        """Let all go: their streams end."""
        for session in self._here.values():
            session.end.leave(reason)


class _Nobody:
    """The sink of no consumer: an acknowledgement may come when none has the message."""

    def deliver(self, frame: object, selection: int | None, attempt: int) -> bool:
        raise AssertionError("nobody receives")

    def active_changed(self, active: bool) -> None: ...

    def closed(self, reason: Exception) -> None: ...


_NOBODY: Final = AttachedConsumer(0, "", _Nobody())


def _tell(holder: AttachedConsumer | None) -> None:
    if holder is not None and isinstance(holder.sink, DanubeConsumer):
        holder.sink.settled()
