"""The consumer: receives messages of a subscription."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, Self

from sulina.client.acks import Acks
from sulina.client.message import Batch, Message
from sulina.client.options import ClientOptions, ConsumerOptions
from sulina.client.partition_consumer import PartitionConsumer
from sulina.client.queue import Credit
from sulina.client.receiver import Receiver
from sulina.client.retry import retry
from sulina.client.session import AsyncResource, closed_error
from sulina.client.tasks import run_all, run_all_or_cancel
from sulina.client.topics import TopicInfo, TopicLookup
from sulina.errors import Closed, Refused, SulinaError, UnknownOutcome
from sulina.model import Start
from sulina.runtime.deadline import within
from sulina.runtime.seam import Runtime
from sulina.runtime.tasks import stop_tasks

_ACK_PAUSE: Final = 0.01
_ACK_RECORDS: Final = 1000
_ACK_BATCHES: Final = 16
_LEAST_QUEUE_BYTES: Final = 64 << 10


class Consumer(AsyncResource):
    """Receives from one subscription. Created by ``Client.consumer``; use it in ``async with``.

    Iterate over it for single messages, or over :meth:`batches` for whole frames, which is much
    faster. On a reliable topic delivery is at least once: a message that is not acknowledged is
    delivered again, also after a lost connection. On an Exclusive or Failover subscription the
    messages of one topic or partition arrive in order, except those delivered again or delayed.

    At most ``queue_bytes`` and ``queue_records`` are buffered here; the broker sends more as the
    application takes messages. Iteration ends when the consumer is closed. It raises the broker's
    error if the broker ends the subscription, and ``Unavailable`` if no broker could be reached
    for ``reconnect_timeout``.

    >>> async with client.consumer("/default/orders", "billing") as consumer:
    ...     async for message in consumer:
    ...         handle(message.payload)
    ...         await consumer.ack(message)
    """

    def __init__(
        self,
        options: ConsumerOptions,
        client: ClientOptions,
        topics: TopicLookup,
        runtime: Runtime,
        on_close: Callable[[Consumer], None],
    ) -> None:
        self._options = options
        self._client = client
        self._topics = topics
        self._runtime = runtime
        self._on_close = on_close
        self._parts: list[PartitionConsumer] = []
        self._receiver = Receiver()
        self._acked = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    # ---- life ----

    @property
    def name(self) -> str:
        """The consumer's name within its subscription."""
        return self._options.name

    @property
    def topic(self) -> str:
        """The topic that was passed to ``Client.consumer``."""
        return self._options.topic

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self._options.subscription

    @property
    def active(self) -> bool:
        """Whether this consumer receives messages from at least one partition.

        A Failover subscription has one active consumer per partition; the others are on standby.
        Also false while the connection is lost.
        """
        return any(part.active for part in self._parts)

    @property
    def corrupt_frames(self) -> int:
        """The number of received frames that were corrupt and were returned to the broker."""
        return sum(part.corrupt_frames for part in self._parts)

    async def open(self) -> Self:
        """Look up the topic and subscribe to all its partitions. ``async with`` calls this.

        Waits at most ``operation_timeout``. Raises ``NotFound`` if the topic does not exist and
        ``create`` is false, ``Unavailable`` if no broker answers, and any other error of the
        broker, for example for a second consumer on an Exclusive subscription.
        """
        if self._closed:
            raise closed_error("consumer")
        info = await retry(
            self._runtime,
            self._client.operation_timeout,
            lambda: self._topics.describe(self._options.topic, create=self._options.create),
        )
        self._parts = self._make_parts(info)
        self._receiver.begin()
        try:
            await run_all_or_cancel([part.open for part in self._parts])
        except BaseException:
            await self.close()
            raise
        self._tasks = [asyncio.create_task(self._send_acks())]
        return self

    def _make_parts(self, info: TopicInfo) -> list[PartitionConsumer]:
        options, parts = self._options, info.parts
        records = max(options.queue_records // len(parts), 1)
        # With very many partitions this exceeds queue_bytes a little: a frame must fit.
        bytes_ = max(options.queue_bytes // len(parts), _LEAST_QUEUE_BYTES)
        return [
            PartitionConsumer(
                name,
                number,
                Credit(records, bytes_ if len(parts) > 1 else options.queue_bytes),
                options,
                self._client,
                self._topics,
                self._runtime,
                owner=self,
                arrived=self._receiver.inbox.put,
                dropped=self._receiver.drop,
                broken=self._receiver.fail,
            )
            for name, number in parts
        ]

    async def close(self) -> None:
        """Send pending acknowledgements and leave the subscription, which remains. Raises nothing.

        Calling it again is safe. If connected, waits for the broker, at most
        ``operation_timeout``. Messages whose acknowledgement could not be sent are delivered again.
        """
        if self._closed:
            return
        self._closed = True
        self._receiver.end(closed_error("consumer"))
        attached = [part for part in self._parts if part.attached]
        try:
            flushing = run_all_or_cancel([part.acks.flush for part in attached])
            await within(self._runtime.clock, self._client.operation_timeout, flushing)
        except (TimeoutError, SulinaError):
            pass
        finally:
            await self._leave()

    async def abandon(self) -> None:
        """Close without waiting for acknowledgements to be confirmed. Raises nothing."""
        if not self._closed:
            self._closed = True
            await self._leave()

    async def _leave(self) -> None:
        await stop_tasks(*self._tasks)
        await run_all([part.close for part in self._parts])
        self._receiver.end(closed_error("consumer"))
        self._on_close(self)

    # ---- receiving ----

    async def receive(self, timeout: float | None = None) -> Message:
        """Wait for the next message. Raises ``TimeoutError`` after ``timeout`` seconds.

        Cancelling the call loses no message. Raises ``Closed`` after :meth:`close`, and the error
        that stopped the consumer, if one did.
        """
        receiver = self._receiver
        for message in receiver.messages:
            return message
        if timeout is None:
            return await receiver.next_message()
        return await within(self._runtime.clock, timeout, receiver.next_message())

    async def receive_batch(self, timeout: float | None = None) -> Batch:
        """Wait for the next batch: the messages of one frame. Raises like :meth:`receive`."""
        if timeout is None:
            return await self._receiver.next_batch()
        return await within(self._runtime.clock, timeout, self._receiver.next_batch())

    def batches(self) -> AsyncIterator[Batch]:
        """An iterator over batches; it ends when the consumer is closed.

        >>> async for batch in consumer.batches():
        ...     handle_all(batch.payloads)
        ...     await consumer.ack(batch)
        """
        return _Batches(self)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        for message in self._receiver.messages:
            return message
        try:
            return await self._receiver.next_message()
        except Closed:
            raise StopAsyncIteration from None

    # ---- acknowledging ----

    async def ack(self, item: Message | Batch) -> None:
        """Acknowledge a message, or all messages of a batch: they are not delivered again.

        Acknowledgements are collected for about 10 ms and sent together. This waits for the broker
        only if it is far behind; use :meth:`flush_acks` to wait for confirmation. Messages received
        before a :meth:`seek` are ignored. Raises ``Refused`` for messages of another consumer.
        """
        batch = item.batch if isinstance(item, Message) else item
        part = self._part_of(batch)
        if batch.generation != part.generation:
            return
        acks = part.acks.collected
        if isinstance(item, Message):
            acks.one(batch.offsets[item.index])
        else:
            _put(acks, batch)
        if self._note_ack(acks):
            part.acks.send()
            await part.acks.room()

    async def ack_cumulative(self, item: Message | Batch) -> None:
        """Acknowledge this message and all earlier ones of its topic or partition.

        Delayed messages that were not delivered yet, or were delivered after this one, are not
        acknowledged. For Exclusive and Failover subscriptions only: raises ``Refused`` where other
        consumers may hold earlier messages. Otherwise like :meth:`ack`.
        """
        if not self._options.ordered:
            raise Refused(
                f"a {self._options.type.value} subscription may have delivered earlier messages to "
                "other consumers, so they cannot be acknowledged cumulatively: use ack"
            )
        batch = item.batch if isinstance(item, Message) else item
        part = self._part_of(batch)
        if batch.generation == part.generation:
            acks = part.acks.collected
            acks.up_to(item.offset if isinstance(item, Message) else batch.offsets[-1])
            self._note_ack(acks)

    async def nack(self, item: Message | Batch, *, delay_ms: int = 0, reason: str = "") -> None:
        """Request redelivery of a message, or of all messages of a batch, after a delay.

        The delay is the larger of ``delay_ms`` and that of the subscription's failure policy, up to
        the policy's maximum. The policy also decides about messages that fail too often.
        ``reason`` is recorded with a message that goes to the dead-letter topic. Does not wait for
        the broker.
        """
        batch = item.batch if isinstance(item, Message) else item
        part = self._part_of(batch)
        if batch.generation != part.generation:
            return
        refused = Acks()
        if isinstance(item, Message):
            refused.one(item.offset)
        else:
            _put(refused, batch)
        part.nack(refused, delay_ms, reason)

    async def flush_acks(self) -> None:
        """Wait until the broker has confirmed all acknowledgements made so far.

        Raises ``UnknownOutcome`` after ``operation_timeout``, and the broker's error if it refused
        any of them.
        """
        seconds = self._client.operation_timeout
        try:
            flushing = run_all_or_cancel([part.acks.flush for part in self._parts])
            await within(self._runtime.clock, seconds, flushing)
        except TimeoutError:
            raise UnknownOutcome(
                f"acknowledgements were not confirmed in {seconds:g} s: "
                "their messages may be delivered again"
            ) from None

    def _note_ack(self, acks: Acks) -> bool:
        """Schedule sending. True if enough are collected to send them now."""
        if acks.records >= _ACK_RECORDS or acks.batches >= _ACK_BATCHES:
            return True
        if not self._acked.is_set():
            self._acked.set()
        return False

    async def _send_acks(self) -> None:
        while True:
            await self._acked.wait()
            await self._runtime.clock.sleep(_ACK_PAUSE)
            self._acked.clear()
            for part in self._parts:
                if part.acks.collected:
                    part.acks.send()

    def _part_of(self, batch: Batch) -> PartitionConsumer:
        if self._closed:
            raise closed_error("consumer")
        part = batch.source
        if not isinstance(part, PartitionConsumer) or part.owner is not self:
            raise Refused(
                "this message was received by another consumer: acknowledge it with that one"
            )
        return part

    # ---- position ----

    async def seek(self, start: Start) -> None:
        """Move the subscription to ``start``, on every partition, for all its consumers.

        Messages that are buffered here but not yet taken are dropped. Waits for the broker, and
        retries after a lost connection, for at most ``operation_timeout``. Raises the broker's
        error. The new position is durable when this returns.
        """
        self._check_open()
        await run_all_or_cancel([partial(part.seek, start) for part in self._parts])

    async def unsubscribe(self) -> None:
        """Delete the subscription with its position, and close the consumer. Waits for the broker.

        If the broker returns an error, it is raised and the consumer stays open.
        """
        self._check_open()
        await run_all_or_cancel([part.unsubscribe for part in self._parts])
        self._closed = True
        await self._leave()

    def _check_open(self) -> None:
        if self._closed or not self._parts:
            raise closed_error("consumer")


class _Batches:
    """Iterates over a consumer's batches. Leaving the loop early leaves nothing to clean up."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Batch:
        try:
            return await self._consumer.receive_batch()
        except Closed:
            raise StopAsyncIteration from None


def _put(acks: Acks, batch: Batch) -> None:
    header = batch.frame.header
    if batch.mask is None:
        acks.whole(header.base_offset, header.next_offset - 1)
    else:
        acks.part(header.base_offset, batch.mask)
