"""Producers and consumers of values instead of bytes; the values' class is the schema.

Opening a producer registers the schema if necessary, and fails if it is incompatible with the
registered ones, before anything is sent. Messages carry the schema version that they were written
with. A consumer decodes with its own class, whatever that version was.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

from sulina.client.codecs import ValueCodec, codec_of
from sulina.client.consumer import Consumer
from sulina.client.delays import Delay, DeliverAt, Expires
from sulina.client.message import Batch, Message
from sulina.client.producer import Producer
from sulina.client.session import AsyncResource, closed_error
from sulina.client.tickets import Ticket
from sulina.errors import Closed, NotFound

T = TypeVar("T")
Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Runs an operation on a broker."""


class TypedMessage(Message, Generic[T]):
    """A message whose payload decodes to a value of the consumer's class."""

    __slots__ = ("_codec",)

    def __init__(self, batch: Batch, index: int, payload: bytes, codec: ValueCodec) -> None:
        super().__init__(batch, index, payload)
        self._codec = codec

    @property
    def value(self) -> T:
        """The decoded payload; decoded at each access. Raises ``Refused`` if it is invalid.

        A tombstone has no value: check ``is_tombstone`` first on topics that have them.
        """
        found: T = self._codec.decode(self.payload)
        return found


class TypedConsumer(Consumer, Generic[T]):
    """Receives values. Created by ``Client.consumer`` with a ``schema``.

    Like ``Consumer``, but messages have a ``value``. ``batches()`` yields undecoded payloads.

    >>> async with client.consumer("/default/orders", "billing", schema=Order) as consumer:
    ...     async for message in consumer:
    ...         handle(message.value)
    ...         await consumer.ack(message)
    """

    _codec: ValueCodec

    @classmethod
    def reading(cls, schema: type[T], *arguments: Any) -> TypedConsumer[T]:
        """A consumer of values of ``schema``; ``arguments`` are those of ``Consumer``."""
        made = cls(*arguments)
        made._codec = codec_of(schema)
        return made

    async def receive(self, timeout: float | None = None) -> TypedMessage[T]:
        """Like ``Consumer.receive``; the message has a ``value``."""
        return self._typed(await super().receive(timeout))

    async def __anext__(self) -> TypedMessage[T]:
        return self._typed(await super().__anext__())

    def _typed(self, message: Message) -> TypedMessage[T]:
        return TypedMessage(message.batch, message.index, message.payload, self._codec)


class TypedProducer(AsyncResource, Generic[T]):
    """Publishes values. Created by ``Client.producer`` with a ``schema``; use it in ``async with``.

    >>> async with client.producer("/default/orders", schema=Order) as producer:
    ...     await producer.send(Order(number=7))
    """

    def __init__(
        self, schema: type[T], subject: str, ask: Ask, make: Callable[[int, int], Producer]
    ) -> None:
        """``make`` creates the underlying producer for a schema id and version."""
        self._codec = codec_of(schema)
        self._ask = ask
        self._make = make
        self._producer: Producer | None = None
        self._closed = False
        self.subject = subject
        """The subject under which the schema is registered."""
        self.schema_id = 0
        self.schema_version = 0

    async def open(self) -> Self:
        """Find or register the schema, then open the producer. ``async with`` calls this.

        Raises ``Refused`` if the schema is incompatible with the registered ones, if the topic is
        bound to another subject, or without permission to register; and like ``Producer.open``.
        """
        if self._closed:
            raise closed_error("producer")
        schema = {
            "subject": self.subject,
            "type": self._codec.language,
            "definition": self._codec.definition,
        }
        try:
            found = await self._ask("schema.find", schema)
        except NotFound:
            found = await self._ask("schema.register", schema)
        self.schema_id, self.schema_version = found["id"], found["version"]
        self._producer = await self._make(self.schema_id, self.schema_version).open()
        return self

    @property
    def producer(self) -> Producer:
        """The underlying ``Producer``. Raises ``Closed`` before :meth:`open`."""
        if self._producer is None:
            raise Closed("the producer is not open yet: use it in `async with`")
        return self._producer

    async def send(
        self,
        value: T | None,
        *,
        key: bytes | str | None = None,
        attributes: Mapping[str, str] | None = None,
        publish_time_us: int | None = None,
        deliver_at: DeliverAt | None = None,
        delay: Delay | None = None,
        expires: Expires | None = None,
    ) -> Ticket:
        """Queue one value, like ``Producer.send``. Raises ``Refused`` if it violates the schema.

        None deletes the value of ``key``.
        """
        return await self.producer.send(
            None if value is None else self._codec.encode(value),
            key=key,
            attributes=attributes,
            publish_time_us=publish_time_us,
            deliver_at=deliver_at,
            delay=delay,
            expires=expires,
        )

    async def send_many(
        self,
        values: Sequence[T | None],
        *,
        keys: Sequence[bytes | str | None] | None = None,
        attributes: Sequence[Mapping[str, str] | None] | None = None,
        publish_time_us: int | None = None,
        deliver_at: DeliverAt | None = None,
        delay: Delay | None = None,
        expires: Expires | None = None,
    ) -> Ticket:
        """Queue many values at once, like ``Producer.send_many``."""
        return await self.producer.send_many(
            [None if value is None else self._codec.encode(value) for value in values],
            keys=keys,
            attributes=attributes,
            publish_time_us=publish_time_us,
            deliver_at=deliver_at,
            delay=delay,
            expires=expires,
        )

    async def flush(self) -> None:
        """Like ``Producer.flush``."""
        await self.producer.flush()

    async def close(self) -> None:
        """Like ``Producer.close``."""
        self._closed = True
        if self._producer is not None:
            await self._producer.close()

    async def abandon(self) -> None:
        """Like ``Producer.abandon``."""
        self._closed = True
        if self._producer is not None:
            await self._producer.abandon()
