"""A producer's way to one topic, or to one partition: draft, pack, send, resend.

Records are packed in the order in which they were added, and each frame's sequence follows on the
one before it. All that is not acknowledged is kept and, after a lost connection or a failure that
passes, sent again in the same order over a new handle; the broker stores no sequence twice.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final

from sulina.client.batching import Attributes, Draft
from sulina.client.budget import Budget
from sulina.client.connection import Connection
from sulina.client.delays import check_due
from sulina.client.linger import Linger
from sulina.client.options import ClientOptions, ProducerOptions
from sulina.client.pending import Pending, PendingFrame
from sulina.client.records import Records
from sulina.client.retry import may_retry
from sulina.client.session import GOODBYE_SECONDS, Session, closed_error
from sulina.client.tickets import Outcome
from sulina.client.topics import Topics
from sulina.client.translate import delivery_to_wire
from sulina.errors import Refused, SulinaError, Unavailable
from sulina.model import Delivery
from sulina.runtime.seam import Runtime
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, Incoming, error_from
from sulina.wire.encode import Origin
from sulina.wire.header import MAX_BODY

FRAME_ROOM: Final = 1024
"""Bytes of a frame that are not records: header, producer's name, padding."""


_IN_FLIGHT: Final = 3
"""With fewer frames on their way a record does not wait for others to join it."""


class Lane:
    """One topic of a producer. ``failure`` is set once nothing can be sent any more."""

    def __init__(
        self,
        topic: str,
        delivery: Delivery,
        options: ProducerOptions,
        client: ClientOptions,
        topics: Topics,
        runtime: Runtime,
        budget: Budget,
        linger: Linger,
    ) -> None:
        self.topic = topic
        self.draft: Draft | None = None
        self.failure: SulinaError | None = None
        self.first_failed: Outcome | None = None
        """The first failure that was not raised to the application yet."""
        self.max_record = MAX_BODY
        self._batch_bytes = options.batch_bytes
        self._max_delay_us = 0
        self._delivery = delivery
        self._options = options
        self._runtime = runtime
        self._budget = budget
        self._linger = linger
        self._origin = Origin(options.name, options.schema_id, options.schema_version)
        self._pending = Pending(budget.give_back, self._note)
        self._session = Session(topic, self, topics, runtime, client)
        self._connection: Connection | None = None
        self._handle = 0
        self._sending = False
        self._known = False
        self._next_sequence = 0
        self._trouble: SulinaError = Unavailable(f"{topic} has not been reached yet")

    async def open(self) -> None:
        """Create the producer at the topic's broker. Raises what prevents it."""
        # Whoever looked the topic up before this created it, if it was to be created.
        await self._session.start(create=False, delivery=None)

    # ---- from the application ----

    @property
    def next_sequence(self) -> int:
        """The sequence of the next record that is packed."""
        return self._next_sequence

    def skip_to(self, sequence: int) -> None:
        """Leave out the sequences before this one; nothing if they are used already."""
        assert self.draft is None and not len(self._pending), "before the first record only"
        self._next_sequence = max(self._next_sequence, sequence)

    def check_due(self, due: int, now: int) -> None:
        """Raise ``Refused`` if the topic can't deliver a record so late."""
        check_due(self.topic, self._delivery, due - now, self._max_delay_us)

    def add(
        self,
        payload: bytes,
        key: bytes | None,
        attributes: Attributes | None,
        time: int,
        cost: int,
        due: int | None,
    ) -> tuple[Outcome, int]:
        """Put one record into the open draft, which has room for it (see :meth:`make_room`)."""
        draft = self.draft
        if draft is None:
            draft = self._open_draft(time, due)
        self._budget.used += cost
        return draft.outcome, draft.add(payload, key, attributes, time, cost)

    def make_room(self, cost: int, time: int, due: int | None) -> bool:
        """Pack the open draft if a record of ``cost`` can't join it. Whether it was packed."""
        draft = self.draft
        if draft is None or (
            draft.cost + cost <= self._batch_bytes
            and len(draft.payloads) < self._options.batch_records
            and draft.takes(time, due)
        ):
            return False
        self.seal()
        return True

    def room(self, time: int, due: int | None) -> tuple[int, int]:
        """The cost and the records that the open draft, or a new one, still takes."""
        draft, options = self.draft, self._options
        if draft is None:
            return self._batch_bytes, options.batch_records
        if not draft.takes(time, due):
            return 0, 0
        return self._batch_bytes - draft.cost, options.batch_records - len(draft.payloads)

    def add_many(
        self, records: Records, time: int, cost: int, due: int | None
    ) -> tuple[Outcome, int]:
        """Put records into the open draft, which has room for all of them (see :meth:`room`)."""
        draft = self.draft
        if draft is None:
            draft = self._open_draft(time, due)
        self._budget.used += cost
        index = draft.extend(records.payloads, records.keys, records.attributes, time, cost)
        return draft.outcome, index

    def _open_draft(self, time: int, due: int | None) -> Draft:
        self.draft = draft = Draft(self.topic, time, due)
        if len(self._pending) >= _IN_FLIGHT and self._linger.seconds:
            self._linger.watch(self, draft)
        else:
            # Little is on its way: go at once, with what comes in this turn of the loop.
            asyncio.get_running_loop().call_soon(self._seal_if_open, draft)
        return draft

    def _seal_if_open(self, draft: Draft) -> None:
        if self.draft is draft:
            self.seal()

    def seal(self) -> None:
        """Pack the open draft into a frame, and send it if the connection takes it now."""
        draft, self.draft = self.draft, None
        if draft is None:
            return
        error = self.failure
        if error is None:
            try:
                frame = draft.encode(self._origin, self._next_sequence, self._options.compression)
            except SulinaError as refusal:
                error = refusal
        if error is not None:
            draft.outcome.fail(error)
            self._budget.give_back(draft.cost)
            self._note(draft.outcome)
            return
        self._next_sequence += len(draft.payloads)
        now = self._runtime.clock.now()
        self._pending.add(PendingFrame(frame, draft.cost, now, draft.outcome))
        self._pump()

    def outstanding(self) -> list[Outcome]:
        """What to wait for until all that was added so far is settled. Packs the open draft."""
        self.seal()
        return self._pending.outcomes()

    def expire(self, now: float) -> None:
        """Fail what was not acknowledged for the send timeout; called every now and then."""
        seconds = self._options.send_timeout
        if self._sending:
            self._trouble = Unavailable(f"{self.topic} acknowledged nothing for {seconds:g} s")
        if self._pending.expire(now - seconds, self._trouble):
            self._let_go()
            self._session.broke(self._trouble)

    async def close(self) -> None:
        """Say goodbye to the broker; what is still pending fails. Waits for the answer."""
        await self._session.stop()
        connection, self._sending = self._connection, False
        if connection is not None:
            goodbye = pb.CloseProducer(producer=self._handle)
            # If it can't be told, the end of the connection tells it.
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
            self._pending.published(body.first_number, body.base_offsets)
            self._session.progressed()
            self._go_if_free()
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
            self._go_if_free()

    def _go_if_free(self) -> None:
        """Little is on its way any more: what waits for company need not wait."""
        if self.draft is not None and len(self._pending) < _IN_FLIGHT:
            self.seal()

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
        """Create the producer over ``connection`` and send all that is pending."""
        self._let_go()
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
        if not self._known:
            self._known = True
            self._next_sequence = created.last_sequence + 1
        elif created.last_sequence >= self._next_sequence:
            # Its frames would be taken for ours, and ours for repeats of them.
            raise Refused(
                f"another producer named {self._options.name!r} has published to {self.topic}: "
                "give each producer a name of its own"
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
        self.seal()
        self._budget.wake()

    def _let_go(self) -> None:
        """Leave the present handle, if there is one; its answers no longer reach us."""
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
            connection.send(
                Command.PUBLISH, pb.Publish(producer=self._handle, number=number), frame
            )

    def _note(self, failed: Outcome) -> None:
        if self.first_failed is None or self.first_failed.seen:
            self.first_failed = failed
