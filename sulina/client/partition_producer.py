"""The part of a producer that serves one topic or one partition: collect, pack, send, resend.

Records are packed in the order in which they were added, and sequence numbers continue from frame
to frame. Unacknowledged frames are kept and, after a lost connection or a temporary failure, sent
again in the same order over a new handle; the broker stores no sequence number twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from sulina.client import sampling
from sulina.client.batching import Attributes, OpenBatch
from sulina.client.budget import Budget
from sulina.client.connection import Connection
from sulina.client.delays import Timing, check_due
from sulina.client.forwarding import ForwardedRun
from sulina.client.linger import Linger
from sulina.client.options import ClientOptions, ProducerOptions
from sulina.client.pending import Pending, PendingFrame
from sulina.client.records import RecordColumns
from sulina.client.retry import may_retry
from sulina.client.session import GOODBYE_SECONDS, TopicSession, closed_error
from sulina.client.tickets import FrameOutcome
from sulina.client.topics import TopicLookup
from sulina.client.translate import delivery_to_wire
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.model import Delivery
from sulina.runtime.seam import Runtime
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, Incoming, error_from
from sulina.wire.encode import Origin
from sulina.wire.header import MAX_BODY

FRAME_ROOM: Final = 1024
"""Bytes of a frame beyond its records: header, producer name, padding."""


_MANY_RECORDS: Final = 1_000
"""A batch of so many records takes half of ``batch_bytes``. Frames cost the same whatever their
size, so large ones save CPU; but a Shared subscription sends a frame once to each consumer that
gets a part of it, and frames with many records are split among more."""
_IN_FLIGHT: Final = 3
"""While fewer frames are in flight, records are sent without lingering."""


class PartitionProducer:
    """Sends to one topic or partition. ``failure`` is set once nothing more can be sent."""

    def __init__(
        self,
        topic: str,
        delivery: Delivery,
        options: ProducerOptions,
        client: ClientOptions,
        topics: TopicLookup,
        runtime: Runtime,
        budget: Budget,
        linger: Linger,
    ) -> None:
        self.topic = topic
        self.open_batch: OpenBatch | None = None
        self.failure: SulinaError | None = None
        self.first_failed: FrameOutcome | None = None
        """The first failure that was not yet raised to the application."""
        self.max_record = MAX_BODY
        self._batch_bytes = options.batch_bytes
        self._max_delay_us = 0
        self._expiry = False
        self._delivery = delivery
        self._options = options
        self._runtime = runtime
        self._budget = budget
        self._linger = linger
        self._origin = Origin(options.name, options.schema_id, options.schema_version)
        self._pending = Pending(budget.give_back, self._note)
        self._session = TopicSession(topic, self, topics, runtime, client)
        self._connection: Connection | None = None
        self._handle = 0
        self._sending = False
        self._known = False
        self._next_sequence = 0
        self._trouble: SulinaError = Unavailable(f"no broker for {topic} has been reached yet")

    async def open(self) -> None:
        """Create the producer at the topic's broker. Raises the error if that fails."""
        # The lookup before this created the topic, if it was to be created.
        await self._session.start(create=False, delivery=None)

    # ---- from the application ----

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next record to be packed."""
        return self._next_sequence

    def skip_to(self, sequence: int) -> None:
        """Skip the sequence numbers before this one; no effect if they are used already."""
        assert self.open_batch is None and not len(self._pending), "call it before the first send"
        self._next_sequence = max(self._next_sequence, sequence)

    def check_timing(self, timing: Timing, now: int) -> None:
        """Raise ``Refused`` if the topic cannot keep these times."""
        if timing.due_us is not None:
            check_due(self.topic, self._delivery, timing.due_us - now, self._max_delay_us)
        if timing.expires_us is not None and not self._expiry:
            raise Refused(
                f"the broker of {self.topic} cannot let single records expire: upgrade it, or "
                "send without expires="
            )

    def add(
        self,
        payload: bytes,
        key: bytes | None,
        attributes: Attributes | None,
        time: int,
        cost: int,
        timing: Timing | None,
    ) -> tuple[FrameOutcome, int]:
        """Add one record to the open batch, which has room for it (see :meth:`make_room`)."""
        open_batch = self.open_batch
        if open_batch is None:
            open_batch = self._start_batch(time, timing)
        self._budget.used += cost
        return open_batch.outcome, open_batch.add(payload, key, attributes, time, cost)

    def make_room(self, cost: int, time: int, timing: Timing | None) -> bool:
        """Pack the open batch if a record of ``cost`` does not fit; whether it was packed."""
        open_batch = self.open_batch
        if open_batch is None:
            return False
        count, limit = len(open_batch.payloads), self._batch_bytes
        if (
            open_batch.cost + cost <= (limit if count < _MANY_RECORDS else limit // 2)
            and count < self._options.batch_records
            and open_batch.takes(time, timing)
        ):
            return False
        self.pack()
        return True

    def room(self, time: int, timing: Timing | None) -> tuple[int, int]:
        """The cost and the number of records that the open batch, or a new one, still takes.

        It may take more once it has that number.
        """
        open_batch, most, limit = self.open_batch, self._options.batch_records, self._batch_bytes
        if open_batch is None:
            return limit, min(most, _MANY_RECORDS)
        if not open_batch.takes(time, timing):
            return 0, 0
        count = len(open_batch.payloads)
        if count < _MANY_RECORDS:
            return limit - open_batch.cost, min(most, _MANY_RECORDS) - count
        return limit // 2 - open_batch.cost, most - count

    def add_many(
        self, records: RecordColumns, time: int, cost: int, timing: Timing | None
    ) -> tuple[FrameOutcome, int]:
        """Add records to the open batch, which has room for all of them (see :meth:`room`)."""
        open_batch = self.open_batch
        if open_batch is None:
            open_batch = self._start_batch(time, timing)
        self._budget.used += cost
        index = open_batch.extend(records.payloads, records.keys, records.attributes, time, cost)
        return open_batch.outcome, index

    def _start_batch(self, time: int, timing: Timing | None) -> OpenBatch:
        self.open_batch = open_batch = OpenBatch(self.topic, time, timing)
        if len(self._pending) >= _IN_FLIGHT and self._linger.seconds:
            self._linger.pack_later(self, open_batch)
        else:
            # Little is in flight: send at the end of this iteration of the event loop.
            asyncio.get_running_loop().call_soon(self._pack_if_open, open_batch)
        return open_batch

    def _pack_if_open(self, open_batch: OpenBatch) -> None:
        if self.open_batch is open_batch:
            self.pack()

    def pack(self) -> None:
        """Pack the open batch into a frame, and send it if the connection is writable."""
        open_batch, self.open_batch = self.open_batch, None
        if open_batch is None:
            return
        error = self.failure
        if error is None:
            try:
                frame = open_batch.encode(
                    self._origin, self._next_sequence, self._options.compression
                )
            except SulinaError as refusal:
                error = refusal
        if error is not None:
            open_batch.outcome.fail(error)
            self._budget.give_back(open_batch.cost)
            self._note(open_batch.outcome)
            return
        self._next_sequence += len(open_batch.payloads)
        if sampling.sampler is not None:
            sampling.sampler.packed(frame)
        now = self._runtime.clock.now()
        self._pending.add(PendingFrame(frame, open_batch.cost, now, open_batch.outcome))
        self._pump()

    def forward(self, records: ForwardedRun, now_us: int, *, schema: bool) -> None:
        """Send records as a frame of their own, numbered by their offsets."""
        self.pack()
        assert records.first >= self._next_sequence
        origin = Origin(
            self._options.name,
            records.schema_id if schema else 0,
            records.schema_version if schema else 0,
        )
        frame = records.encode(origin, now_us, self._options.compression)
        self._next_sequence = records.first + len(records.payloads)
        outcome = FrameOutcome(self.topic)
        self._budget.used += records.cost
        now = self._runtime.clock.now()
        self._pending.add(PendingFrame(frame, records.cost, now, outcome))
        self._pump()

    def outstanding(self) -> list[FrameOutcome]:
        """The outcomes of everything that was added so far. Packs the open batch."""
        self.pack()
        return self._pending.outcomes()

    def expire(self, now: float) -> None:
        """Fail what was not acknowledged within the send timeout. Called periodically."""
        seconds = self._options.send_timeout
        if self._sending:
            self._trouble = Unavailable(
                f"the broker of {self.topic} acknowledged nothing for {seconds:g} s"
            )
        if self._pending.expire(now - seconds, self._trouble):
            self._release_handle()
            self._session.broke(self._trouble)

    async def close(self) -> None:
        """Close the producer at the broker and wait for its answer. What is still pending fails."""
        await self._session.stop()
        connection, self._sending = self._connection, False
        if connection is not None:
            goodbye = pb.CloseProducer(producer=self._handle)
            # If this fails, the end of the connection closes it.
            with contextlib.suppress(SulinaError):
                await connection.request(
                    Command.CLOSE_PRODUCER, goodbye, pb.Done, seconds=GOODBYE_SECONDS
                )
            self._forget_handle()
        self.failed(closed_error("producer"))

    # ---- from the broker ----

    def received(self, incoming: Incoming) -> None:
        body = incoming.body
        if isinstance(body, pb.Published):
            if sampling.sampler is not None:
                sampling.sampler.replied(self, body.first_number, len(body.base_offsets))
            self._pending.published(body.first_number, body.base_offsets)
            self._session.progressed()
            self._pack_if_idle()
        elif isinstance(body, pb.PublishFailed):
            if self._sending:
                self._publish_failed(body.number, error_from(body.error))
        elif isinstance(body, pb.ProducerClosed):
            self._forget_handle()
            self._break(error_from(body.error))

    def _publish_failed(self, number: int, error: SulinaError) -> None:
        if may_retry(error):
            self._pending.interrupted(number)
            self._break(error)
        else:
            self._pending.refused(number, error)
            self._pack_if_idle()

    def _pack_if_idle(self) -> None:
        """Pack the open batch if little is in flight."""
        if self.open_batch is not None and len(self._pending) < _IN_FLIGHT:
            self.pack()

    def writable_again(self) -> None:
        self._pump()

    def lost(self, reason: SulinaError) -> None:
        self._connection = None
        self._break(reason)

    def _break(self, reason: SulinaError) -> None:
        self._sending = False
        self._trouble = reason
        self._session.broke(reason)

    # ---- from the session ----

    async def attach(self, connection: Connection) -> None:
        """Create the producer over ``connection`` and send everything that is pending."""
        self._release_handle()
        body = pb.CreateProducer(
            topic=self.topic,
            name=self._options.name,
            delivery=delivery_to_wire(self._options.delivery),
            exclusive=self._options.exclusive,
            subject=self._options.subject,
        )

        def arrived(created: pb.ProducerCreated) -> None:
            connection.producers[created.producer] = self
            self._connection, self._handle = connection, created.producer

        def abandoned(created: pb.ProducerCreated) -> None:
            connection.send(Command.CLOSE_PRODUCER, pb.CloseProducer(producer=created.producer))

        _, created = await connection.request(
            Command.CREATE_PRODUCER,
            body,
            pb.ProducerCreated,
            arrived=arrived,
            abandoned=abandoned,
        )
        largest = min(created.max_frame_bytes or MAX_BODY, connection.max_frame_bytes)
        self.max_record = largest - FRAME_ROOM
        self._batch_bytes = min(self._options.batch_bytes, self.max_record)
        self._max_delay_us = created.max_delay_ms * 1000
        self._expiry = created.expiry
        if not self._known:
            self._known = True
            self._next_sequence = created.last_sequence + 1
        elif created.last_sequence >= self._next_sequence:
            # The broker would take its frames for ours, and ours for repeats of them.
            raise Refused(
                f"another producer named {self._options.name!r} has published to {self.topic}: "
                "give each producer its own name"
            )
        self._pending.restart(resend_in_doubt=self._delivery is Delivery.RELIABLE)
        self._sending = self._connection is not None
        self._pump()

    def detached(self, reason: SulinaError) -> None:
        self._sending = False
        self._trouble = reason

    def failed(self, error: SulinaError) -> None:
        if self.failure is None:
            self.failure = error
        self._sending = False
        self._pending.fail_all(error)
        self.pack()
        self._budget.wake()

    def _release_handle(self) -> None:
        """Close the current handle, if there is one, and ignore its answers."""
        connection = self._connection
        self._forget_handle()
        if connection is not None:
            connection.send(Command.CLOSE_PRODUCER, pb.CloseProducer(producer=self._handle))

    def _forget_handle(self) -> None:
        if self._connection is not None:
            self._connection.producers.pop(self._handle, None)
        self._connection = None
        self._sending = False

    def _pump(self) -> None:
        connection = self._connection
        if connection is None or not self._sending:
            return
        waiting = self._pending.to_send()
        while connection.writable and (item := next(waiting, None)) is not None:
            number, frame = item
            body = pb.Publish(producer=self._handle, number=number)
            if sampling.sampler is not None:
                body.trace = sampling.sampler.sent(self, number, frame)
            connection.send(Command.PUBLISH, body, frame)

    def _note(self, failed: FrameOutcome) -> None:
        if self.first_failed is None or self.first_failed.seen:
            self.first_failed = failed
