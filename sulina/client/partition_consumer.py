"""The part of a consumer that serves one topic or partition: credit, deliveries, acks.

When the attachment to the broker breaks, buffered deliveries are dropped, because the broker
delivers them again. Unconfirmed acknowledgements are sent again before any credit is granted, so
that the broker does not redeliver those messages.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from sulina.client import sampling
from sulina.client.ack_sender import AckSender
from sulina.client.acks import Acks
from sulina.client.connection import Connection
from sulina.client.message import Batch
from sulina.client.options import ClientOptions, ConsumerOptions
from sulina.client.queue import Credit, ReceivedFrame
from sulina.client.retry import retry
from sulina.client.session import GOODBYE_SECONDS, TopicSession
from sulina.client.topics import TopicLookup
from sulina.client.translate import policy_to_wire, start_to_wire, type_to_wire
from sulina.errors import CorruptFrame, SulinaError, Unavailable
from sulina.model import Start
from sulina.runtime.seam import Runtime
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.commands import Command, Incoming, error_from
from sulina.wire.decode import Frame
from sulina.wire.header import HEADER_SIZE, MAX_RECORDS, parse_header


class PartitionConsumer:
    """Receives from one topic or partition.

    ``owner`` is the consumer. ``arrived`` receives each delivered frame, ``dropped`` is called when
    those not yet taken are void, ``broken`` receives the error when no more will come.
    """

    def __init__(
        self,
        topic: str,
        partition: int | None,
        credit: Credit,
        options: ConsumerOptions,
        client: ClientOptions,
        topics: TopicLookup,
        runtime: Runtime,
        *,
        owner: object,
        arrived: Callable[[ReceivedFrame], None],
        dropped: Callable[[PartitionConsumer], list[ReceivedFrame]],
        broken: Callable[[SulinaError], None],
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.owner = owner
        self.active = False
        self.generation = 0
        """Incremented by each seek: messages received before it cannot be acknowledged after it."""
        self.corrupt_frames = 0
        self._credit = credit
        self._options = options
        self._client = client
        self._runtime = runtime
        self._arrived = arrived
        self._dropped = dropped
        self._broken = broken
        self._session = TopicSession(topic, self, topics, runtime, client)
        self.acks = AckSender(self._session.broke)
        self._connection: Connection | None = None
        self._handle = 0
        self._seeking = False

    async def open(self) -> None:
        """Subscribe at the topic's broker. Raises the error if that fails."""
        await self._session.start(create=False, delivery=None)

    # ---- deliveries ----

    def unpack(self, delivery: ReceivedFrame) -> Batch | None:
        """Decode a frame that the application takes from the queue.

        None if it is corrupt: then it is counted and returned to the broker. Raises ``Refused`` if
        its compression is not installed here.
        """
        try:
            frame = Frame(delivery.data)
        except CorruptFrame:
            self.corrupt_frames += 1
            self._return_corrupt(delivery)
            self._use_credit(_records_of(delivery), len(delivery.data))
            return None
        mask = delivery.mask
        batch = Batch(
            frame,
            self.topic,
            self.partition,
            mask=None if mask is None else mask & selection.whole(frame.count),
            attempt=delivery.attempt,
            source=self,
            generation=self.generation,
        )
        self._use_credit(len(batch), len(delivery.data))
        return batch

    def _return_corrupt(self, delivery: ReceivedFrame) -> None:
        with contextlib.suppress(CorruptFrame):  # without a header its offsets are unknown
            header = parse_header(delivery.data)
            chosen = selection.whole(header.count) if delivery.mask is None else delivery.mask
            meant = Acks()
            meant.part(header.base_offset, chosen)
            self.nack(meant, 0, "corrupt frame")

    def _use_credit(self, records: int, bytes_: int) -> None:
        granted = self._credit.use(records, bytes_)
        if granted is not None:
            self._grant(*granted)

    def _grant(self, records: int, bytes_: int) -> None:
        if self._connection is not None:
            flow = pb.Flow(consumer=self._handle, records=records, bytes=bytes_)
            self._connection.send(Command.FLOW, flow)

    # ---- acknowledgements ----

    def nack(self, refused: Acks, delay_ms: int, reason: str) -> None:
        """Request redelivery. Without a connection nothing is sent: it happens anyway."""
        if self._connection is None:
            return
        for ack in refused.take():
            body = pb.Nack(
                consumer=self._handle, selections=ack.selections, delay_ms=delay_ms, reason=reason
            )
            self._connection.send(Command.NACK, body)

    # ---- position, and the end ----

    async def seek(self, start: Start) -> None:
        """Move to ``start``. Retries after a lost connection, within the operation timeout."""
        await retry(self._runtime, self._client.operation_timeout, lambda: self._seek_once(start))

    async def _seek_once(self, start: Start) -> None:
        connection = self._attached()
        self.acks.send()
        self._seeking = True
        self._drop()
        body = pb.Seek(consumer=self._handle, start=start_to_wire(start))
        try:
            await connection.request(Command.SEEK, body, pb.Done, arrived=self._sought)
        except BaseException:
            # What arrived meanwhile was dropped: only a new attachment delivers it again.
            self._session.broke(Unavailable(f"{self.topic}: a seek failed"))
            raise

    def _sought(self, _: pb.Done) -> None:
        self._seeking = False
        self.generation += 1

    async def unsubscribe(self) -> None:
        """Delete the subscription, which also closes this consumer. Waits for the broker."""

        async def attempt() -> None:
            connection = self._attached()
            body = pb.Unsubscribe(consumer=self._handle)
            await connection.request(Command.UNSUBSCRIBE, body, pb.Done)

        await retry(self._runtime, self._client.operation_timeout, attempt)
        self._forget_handle()

    def _attached(self) -> Connection:
        if self._connection is None:
            raise Unavailable(f"{self.topic} is not connected at the moment: try again")
        return self._connection

    async def close(self) -> None:
        """Close the consumer at the broker and wait for its answer. Raises nothing."""
        await self._session.stop()
        self.acks.send()
        connection = self._connection
        if connection is not None:
            goodbye = pb.CloseConsumer(consumer=self._handle)
            # If this fails, the end of the connection closes it.
            with contextlib.suppress(SulinaError):
                await connection.request(
                    Command.CLOSE_CONSUMER, goodbye, pb.Done, seconds=GOODBYE_SECONDS
                )
        self._forget_handle()

    @property
    def attached(self) -> bool:
        """Whether a broker currently serves this consumer."""
        return self._connection is not None

    # ---- from the broker ----

    def received(self, incoming: Incoming) -> None:
        body = incoming.body
        if isinstance(body, pb.Deliver):
            mask = selection.from_bytes(body.selection) if body.selection else None
            if sampling.sampler is not None and body.trace:
                base = parse_header(incoming.data).base_offset
                sampling.sampler.delivered(self.topic, base, body.trace)
            delivery = ReceivedFrame(self, incoming.data, mask, body.attempt)
            self._session.progressed()
            if self._seeking:
                self._use_credit(_records_of(delivery), len(delivery.data))
            else:
                self._arrived(delivery)
        elif isinstance(body, pb.ActiveChanged):
            self.active = body.active
        elif isinstance(body, pb.ConsumerClosed):
            self._forget_handle()
            self._session.broke(error_from(body.error))

    def writable_again(self) -> None:
        """Nothing to do: a consumer sends small commands and never waits to send."""

    def lost(self, reason: SulinaError) -> None:
        self._forget_handle()
        self._session.broke(reason)

    # ---- from the session ----

    async def attach(self, connection: Connection) -> None:
        """Subscribe over ``connection``, then send acknowledgements, then grant credit."""
        self._release_handle()
        options = self._options
        body = pb.Subscribe(
            topic=self.topic,
            subscription=options.subscription,
            type=type_to_wire(options.type),
            consumer=options.name,
            start=start_to_wire(options.start),
            key_filters=options.key_filters,
            failure_policy=policy_to_wire(options.failure_policy),
        )

        def arrived(subscribed: pb.Subscribed) -> None:
            connection.consumers[subscribed.consumer] = self
            self._connection, self._handle = connection, subscribed.consumer
            self._seeking = False
            self.active = subscribed.active

        def abandoned(subscribed: pb.Subscribed) -> None:
            goodbye = pb.CloseConsumer(consumer=subscribed.consumer)
            connection.send(Command.CLOSE_CONSUMER, goodbye)

        await connection.request(
            Command.SUBSCRIBE, body, pb.Subscribed, arrived=arrived, abandoned=abandoned
        )
        if self._connection is None:
            return  # lost again already; the session was notified
        self.acks.attach(connection, self._handle)
        self._grant(*self._credit.begin())

    def detached(self, reason: SulinaError) -> None:
        self._drop()

    def failed(self, error: SulinaError) -> None:
        self._forget_handle()
        self.acks.fail(error)
        self._broken(error)

    def _drop(self) -> None:
        for delivery in self._dropped(self):
            self._use_credit(_records_of(delivery), len(delivery.data))

    def _release_handle(self) -> None:
        connection = self._connection
        self._forget_handle()
        if connection is not None:
            connection.send(Command.CLOSE_CONSUMER, pb.CloseConsumer(consumer=self._handle))

    def _forget_handle(self) -> None:
        if self._connection is not None:
            self._connection.consumers.pop(self._handle, None)
            self.acks.detach()
        self._connection = None
        self.active = False


def _records_of(delivery: ReceivedFrame) -> int:
    """How many records a frame counts for, without decoding it."""
    if delivery.mask is not None:
        return delivery.mask.bit_count()
    if len(delivery.data) < HEADER_SIZE:
        return 0
    return min(int.from_bytes(delivery.data[16:20], "little"), MAX_RECORDS)
