"""The consumer: what an application receives with."""

from __future__ import annotations

import asyncio
import types
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Final, Self

from sulina.client.acks import Acks
from sulina.client.feed import Feed
from sulina.client.message import Batch, Message
from sulina.client.options import ClientOptions, ConsumerOptions
from sulina.client.queue import Credit
from sulina.client.receiver import Receiver
from sulina.client.retry import retry
from sulina.client.session import closed_error
from sulina.client.tasks import every, stop_tasks, together
from sulina.client.topics import TopicInfo, Topics
from sulina.errors import Closed, Refused, SulinaError, UnknownOutcome
from sulina.model import Start
from sulina.runtime.deadline import within
from sulina.runtime.seam import Runtime

_ACK_PAUSE: Final = 0.01
_ACK_RECORDS: Final = 1000
_ACK_BATCHES: Final = 16
_LEAST_QUEUE_BYTES: Final = 64 << 10


class Consumer:
    """Receives from one subscription. Made by ``Client.consumer``; use it in ``async with``.

    ``async for message in consumer`` gives messages one by one, ``async for batch in
    consumer.batches()`` as they were packed, which is much faster. Delivery is at least once on a
    reliable topic: what is not acknowledged comes again, also after a lost connection. Messages
    of one topic or partition come in order, unless they are shared with others or come again.

    At most ``queue_bytes`` and ``queue_records`` wait here; the broker sends no more before the
    application takes some. Iteration ends when the consumer is closed, and raises the error when
    the broker refuses to go on or could not be reached for the reconnect timeout.
    """

    def __init__(
        self,
        options: ConsumerOptions,
        client: ClientOptions,
        topics: Topics,
        runtime: Runtime,
        on_close: Callable[[Consumer], None],
    ) -> None:
        self._options = options
        self._client = client
        self._topics = topics
        self._runtime = runtime
        self._on_close = on_close
        self._feeds: list[Feed] = []
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
        """The topic as it was given, without a partition."""
        return self._options.topic

    @property
    def subscription(self) -> str:
        """The name of the subscription."""
        return self._options.subscription

    @property
    def active(self) -> bool:
        """Whether this consumer receives, at least from one partition.

        A Failover subscription has one active consumer a partition; the others stand by. False
        too while the connection is lost.
        """
        return any(feed.active for feed in self._feeds)

    @property
    def corrupt_frames(self) -> int:
        """Deliveries that could not be read, and were given back to the broker."""
        return sum(feed.corrupt_frames for feed in self._feeds)

    async def open(self) -> Self:
        """Find the topic and subscribe to it, or to all its partitions; ``async with`` does it.

        Waits for the broker, at most for the operation timeout. Raises what the broker refuses,
        or ``Unavailable``.
        """
        if self._closed:
            raise closed_error("consumer")
        info = await retry(
            self._runtime,
            self._client.operation_timeout,
            lambda: self._topics.describe(self._options.topic, create=self._options.create),
        )
        self._feeds = self._make_feeds(info)
        self._receiver.begin()
        try:
            await together([feed.open for feed in self._feeds])
        except BaseException:
            await self.close()
            raise
        self._tasks = [asyncio.create_task(self._send_acks())]
        return self

    def _make_feeds(self, info: TopicInfo) -> list[Feed]:
        options, parts = self._options, info.parts
        records = max(options.queue_records // len(parts), 1)
        # With very many partitions a little more than was asked for: a frame must go through.
        bytes_ = max(options.queue_bytes // len(parts), _LEAST_QUEUE_BYTES)
        return [
            Feed(
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
        """Send the acknowledgements, and leave the subscription, which stays. May be called
        again.

        Waits for the broker, if it is connected, at most for the operation timeout; raises
        nothing. Acknowledgements that could not be sent mean that messages come again.
        """
        if self._closed:
            return
        self._closed = True
        self._receiver.end(closed_error("consumer"))
        attached = [feed for feed in self._feeds if feed.attached]
        try:
            flushing = together([feed.acks.flush for feed in attached])
            await within(self._runtime.clock, self._client.operation_timeout, flushing)
        except (TimeoutError, SulinaError):
            pass
        finally:
            await self._leave()

    async def abandon(self) -> None:
        """Leave without waiting for acknowledgements to be confirmed. Raises nothing."""
        if not self._closed:
            self._closed = True
            await self._leave()

    async def _leave(self) -> None:
        await stop_tasks(self._tasks)
        await every([feed.close for feed in self._feeds])
        self._receiver.end(closed_error("consumer"))
        self._on_close(self)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if error is None or isinstance(error, Exception):
            await self.close()
        else:
            await self.abandon()

    # ---- receiving ----

    async def receive(self, timeout: float | None = None) -> Message:
        """The next message. Waits for it, at most ``timeout`` seconds: then ``TimeoutError``.

        Nothing is lost by cancelling it. Raises ``Closed`` after :meth:`close`, and the error
        that has put an end to the consumer.
        """
        receiver = self._receiver
        for message in receiver.messages:
            return message
        if timeout is None:
            return await receiver.next_message()
        return await within(self._runtime.clock, timeout, receiver.next_message())

    async def receive_batch(self, timeout: float | None = None) -> Batch:
        """The next messages, as they were packed. Waits and raises as :meth:`receive` does."""
        if timeout is None:
            return await self._receiver.next_batch()
        return await within(self._runtime.clock, timeout, self._receiver.next_batch())

    def batches(self) -> AsyncIterator[Batch]:
        """Iterate over batches; ends when the consumer is closed."""
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
        """This message, or every message of this batch, is done with.

        Acknowledgements are collected for some milliseconds; this does not wait for the broker
        (:meth:`flush_acks` does), unless it is far behind. Messages received before a seek are
        not acknowledged. Raises ``Refused`` for messages of another consumer.
        """
        batch = item.batch if isinstance(item, Message) else item
        feed = self._feed_of(batch)
        if batch.generation != feed.generation:
            return
        acks = feed.acks.collected
        if isinstance(item, Message):
            acks.one(batch.offsets[item.index])
        else:
            _put(acks, batch)
        if self._note_ack(acks):
            feed.acks.send()
            await feed.acks.room()

    async def ack_cumulative(self, item: Message | Batch) -> None:
        """This and everything before it, in its topic or partition, is done with.

        Not meant is what has a delivery time and was delivered after it, or was not yet.
        As :meth:`ack` otherwise. Only for Exclusive and Failover subscriptions: raises
        ``Refused`` where other consumers may hold messages from before this one.
        """
        if not self._options.ordered:
            raise Refused(
                f"a {self._options.type.value} subscription gives earlier messages to other "
                "consumers, so they can't be acknowledged all together: use ack"
            )
        batch = item.batch if isinstance(item, Message) else item
        feed = self._feed_of(batch)
        if batch.generation == feed.generation:
            acks = feed.acks.collected
            acks.up_to(item.offset if isinstance(item, Message) else batch.offsets[-1])
            self._note_ack(acks)

    async def nack(self, item: Message | Batch, *, delay_ms: int = 0, reason: str = "") -> None:
        """This message, or batch, could not be handled: deliver it again, after a delay.

        The subscription's failure policy decides about the delay, if ``delay_ms`` is shorter, and
        about messages that fail too often. ``reason`` goes with a message to the dead-letter
        topic. Does not wait for the broker.
        """
        batch = item.batch if isinstance(item, Message) else item
        feed = self._feed_of(batch)
        if batch.generation != feed.generation:
            return
        refused = Acks()
        if isinstance(item, Message):
            refused.one(item.offset)
        else:
            _put(refused, batch)
        feed.nack(refused, delay_ms, reason)

    async def flush_acks(self) -> None:
        """Wait until the broker has taken all acknowledgements made so far.

        Raises ``UnknownOutcome`` if that takes longer than the operation timeout, and the
        broker's error if it refused some.
        """
        seconds = self._client.operation_timeout
        try:
            flushing = together([feed.acks.flush for feed in self._feeds])
            await within(self._runtime.clock, seconds, flushing)
        except TimeoutError:
            raise UnknownOutcome(
                f"acknowledgements were not confirmed in {seconds:g} s: "
                "their messages may be delivered again"
            ) from None

    def _note_ack(self, acks: Acks) -> bool:
        """Have them sent in a moment. True: so many are collected that they go now."""
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
            for feed in self._feeds:
                if feed.acks.collected:
                    feed.acks.send()

    def _feed_of(self, batch: Batch) -> Feed:
        if self._closed:
            raise closed_error("consumer")
        feed = batch.feed
        if feed is None or feed.owner is not self:
            raise Refused("only the consumer that received a message can acknowledge it")
        return feed

    # ---- position ----

    async def seek(self, start: Start) -> None:
        """Go on from ``start``, on every partition; what was received and not taken is dropped.

        The subscription's other consumers are moved too. Waits for the broker; tries again after
        a lost connection, within the operation timeout. Raises what the broker refuses.
        """
        self._check_open()
        await together([partial(feed.seek, start) for feed in self._feeds])

    async def unsubscribe(self) -> None:
        """Delete the subscription with its position, and close. Waits for the broker.

        Raises what the broker refuses; the consumer stays open then.
        """
        self._check_open()
        await together([feed.unsubscribe for feed in self._feeds])
        self._closed = True
        await self._leave()

    def _check_open(self) -> None:
        if self._closed or not self._feeds:
            raise closed_error("consumer")


class _Batches:
    """Iterates over a consumer's batches; nothing to clean up when a loop is left early."""

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
