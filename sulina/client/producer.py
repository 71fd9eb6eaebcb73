"""The producer: publishes records to a topic."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Self

from sulina.client.batching import RECORD_OVERHEAD, fitting
from sulina.client.budget import Budget
from sulina.client.delays import Delay, DeliverAt, Expires, Timing, timing
from sulina.client.forwarding import forwarded_runs
from sulina.client.linger import Linger
from sulina.client.message import Batch
from sulina.client.options import ClientOptions, ProducerOptions
from sulina.client.partition_producer import PartitionProducer
from sulina.client.records import RecordColumns, as_attributes, as_key, as_payload, as_time
from sulina.client.retry import retry
from sulina.client.routing import group_by_partition, partition_of
from sulina.client.session import AsyncResource, closed_error
from sulina.client.tasks import run_all, run_all_or_cancel
from sulina.client.tickets import FrameOutcome, Ticket
from sulina.client.topics import TopicLookup
from sulina.errors import Closed, Refused, SulinaError, TooLarge
from sulina.runtime.seam import Buffer, Runtime
from sulina.runtime.tasks import stop_tasks
from sulina.wire.tombstones import tombstone_attributes


@types.coroutine
def _turn() -> Generator[None, None, None]:
    """Yield to the event loop once, so that a busy sender does not starve the network."""
    yield


class Producer(AsyncResource):
    """Publishes records to one topic. Created by ``Client.producer``; use it in ``async with``.

    Records sent to the same topic or partition are stored in the order in which the sends
    returned. On a reliable topic each record is stored exactly once, even if connections are lost
    and frames are sent again. On a non-reliable topic a frame that may have been received is not
    sent again: its ticket raises ``UnknownOutcome``.

    Leaving the ``async with`` block waits for all acknowledgements, and raises the first error that
    was not yet raised by awaiting a ticket.

    >>> async with client.producer("/default/orders") as producer:
    ...     ticket = await producer.send(b"an order", key="customer-7")
    ...     message_id = await ticket  # durable now
    """

    def __init__(
        self,
        options: ProducerOptions,
        client: ClientOptions,
        topics: TopicLookup,
        runtime: Runtime,
        on_close: Callable[[Producer], None],
    ) -> None:
        self._options = options
        self._client = client
        self._topics = topics
        self._runtime = runtime
        self._on_close = on_close
        self._wall_us = runtime.clock.wall_us
        self._budget = Budget(options.max_pending_bytes)
        self._linger = Linger(runtime.clock, options.linger)
        self._parts: list[PartitionProducer] = []
        self._turn_of = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    # ---- life ----

    @property
    def name(self) -> str:
        """The producer's name. A producer that reuses a name continues that name's sequence."""
        return self._options.name

    @property
    def topic(self) -> str:
        """The topic that was passed to ``Client.producer``."""
        return self._options.topic

    @property
    def next_sequence(self) -> int:
        """The sequence number of the next record.

        Before the first send it is one more than the last number stored under this name. Raises
        ``Refused`` if the topic has several partitions: each has sequences of its own.
        """
        return self._only_part().next_sequence

    def skip_to(self, sequence: int) -> None:
        """Start numbering at ``sequence``, unless this name has stored higher numbers already.

        For programs that number their records themselves and, after a restart, read from
        ``next_sequence`` how far they got. Call it before the first send. Raises ``Refused`` if
        the topic has several partitions.
        """
        self._only_part().skip_to(sequence)

    def _only_part(self) -> PartitionProducer:
        if len(self._parts) != 1:
            raise Refused(
                f"{self.topic} has {len(self._parts)} partitions, each with its own sequence: "
                "open one producer per partition"
            )
        return self._parts[0]

    async def open(self) -> Self:
        """Look up the topic and register with its broker. ``async with`` calls this.

        Waits at most ``operation_timeout``. Raises ``NotFound`` if the topic does not exist and
        ``create`` is false, ``AlreadyExists`` if another producer uses the name, ``Unavailable`` if
        no broker answers, and any other error of the broker.
        """
        if self._closed:
            raise closed_error("producer")
        options = self._options
        info = await retry(
            self._runtime,
            self._client.operation_timeout,
            lambda: self._topics.describe(
                options.topic, create=options.create, delivery=options.delivery
            ),
        )
        self._parts = [
            PartitionProducer(
                name,
                info.delivery,
                options,
                self._client,
                self._topics,
                self._runtime,
                self._budget,
                self._linger,
            )
            for name, _ in info.parts
        ]
        try:
            await run_all_or_cancel([part.open for part in self._parts])
        except BaseException:
            await self.abandon()
            raise
        self._tasks = [
            asyncio.create_task(self._linger.run()),
            asyncio.create_task(self._expire()),
        ]
        return self

    async def close(self) -> None:
        """Flush, deregister from the broker, and refuse further sends. Calling it again is safe.

        Waits at most ``send_timeout`` for pending records. Raises like :meth:`flush`, after
        everything is closed.
        """
        if self._closed:
            return
        self._closed = True
        try:
            await self._settle()
        finally:
            await self._leave()
        self._raise_unseen()

    async def abandon(self) -> None:
        """Close without waiting for pending records: their tickets fail. Raises nothing."""
        if not self._closed:
            self._closed = True
            await self._leave()

    async def _leave(self) -> None:
        await stop_tasks(*self._tasks)
        await run_all([part.close for part in self._parts])
        self._budget.wake()
        self._on_close(self)

    # ---- sending ----

    async def send(
        self,
        payload: Buffer | None,
        *,
        key: bytes | str | None = None,
        attributes: Mapping[str, str] | None = None,
        publish_time_us: int | None = None,
        deliver_at: DeliverAt | None = None,
        delay: Delay | None = None,
        expires: Expires | None = None,
    ) -> Ticket:
        """Queue one record and return a ticket. Await the ticket for the record's ``MessageId``.

        Returns before the record is stored. Blocks only while ``max_pending_bytes`` are waiting to
        be acknowledged. Records with the same ``key`` go to the same partition. ``publish_time_us``
        replaces the time of this machine's clock. None as ``payload`` is a tombstone: it deletes
        the value of ``key``.

        No subscription delivers the record before ``deliver_at`` (a datetime with a time zone, or
        seconds since 1970) or before ``delay`` (a timedelta or seconds) has passed; records sent
        later overtake it. A delay is rounded up, by at most 1 % of it (at least 1 ms, at most 1 s).
        Delayed records need a reliable topic.

        No subscription delivers the record once it has expired: at ``expires`` (a datetime with a
        time zone) or when that much time (a timedelta or seconds) has passed, rounded down in the
        same way. Reading without a subscription still shows it.

        Raises ``TooLarge`` and ``Refused`` for a record that cannot be sent, ``Closed`` after
        :meth:`close`, and the error that stopped the producer, if one did.
        """
        if payload is None:
            payload, attributes = b"", tombstone_attributes(key, attributes)
        elif type(payload) is not bytes:
            payload = as_payload(payload)
        cost = len(payload) + RECORD_OVERHEAD
        if key is not None:
            key = as_key(key)
            cost += len(key)
        if attributes:
            attributes, size = as_attributes(attributes)
            cost += size
        times = None
        if deliver_at is not None or delay is not None or expires is not None:
            times = timing(deliver_at, delay, expires, self._wall_us())
        budget = self._budget
        while True:
            while budget.used >= budget.limit and not self._closed:
                await budget.change()
            part = self._part_for(key)
            if self._closed or part.failure is not None or cost > part.max_record:
                raise self._refusal(part, cost)
            if times is not None:
                part.check_timing(times, self._wall_us())
            time = self._wall_us() if publish_time_us is None else as_time(publish_time_us)
            if not part.make_room(cost, time, times):
                return Ticket(*part.add(payload, key, attributes, time, cost, times))
            await _turn()

    async def send_many(
        self,
        payloads: Sequence[Buffer | None],
        *,
        keys: Sequence[bytes | str | None] | None = None,
        attributes: Sequence[Mapping[str, str] | None] | None = None,
        publish_time_us: int | None = None,
        deliver_at: DeliverAt | None = None,
        delay: Delay | None = None,
        expires: Expires | None = None,
    ) -> Ticket:
        """Queue many records at once, which is much faster than one by one.

        ``keys`` and ``attributes`` have one entry per payload; ``publish_time_us``, ``deliver_at``,
        ``delay`` and ``expires`` apply to all of them, as in :meth:`send`. The ticket is done once
        every record is acknowledged; awaiting it returns the id of the last one.

        Blocks like :meth:`send`, possibly after part of the records was queued. Raises like
        :meth:`send`; if the arguments are invalid, nothing is sent.

        >>> ticket = await producer.send_many([b"a", b"b", b"c"])
        """
        records = RecordColumns.check(payloads, keys, attributes)
        now = self._wall_us()
        time = now if publish_time_us is None else as_time(publish_time_us)
        times = timing(deliver_at, delay, expires, now)
        if times is not None:
            for part in self._parts:
                part.check_timing(times, now)
        outcomes: list[FrameOutcome] = []
        index = 0
        for number, run in self._runs(records):
            index = await self._send_run(number, run, (time, times), outcomes)
        return Ticket(outcomes.pop(), index, outcomes)

    async def forward(self, batch: Batch, *, schema: bool = True) -> int:
        """Publish received records again, each with its offset as its sequence number.

        Keys, attributes, publish times, delivery times still to come and, if ``schema``, the schema
        version stay. Records whose numbers this name has stored already are left out, so a copy
        that is interrupted continues where it was. Returns the number of records queued.

        Blocks like :meth:`send`. Raises ``Refused`` on a topic with several partitions, and
        otherwise like :meth:`send`.
        """
        part = self._only_part()
        budget, queued = self._budget, 0
        for records in forwarded_runs(batch, part.next_sequence, part.max_record):
            while budget.used >= budget.limit and not self._closed:
                await budget.change()
            if self._closed or part.failure is not None or records.largest > part.max_record:
                raise self._refusal(part, records.largest)
            part.forward(records, self._wall_us(), schema=schema)
            queued += len(records.payloads)
            await _turn()
        return queued

    def _runs(self, records: RecordColumns) -> list[tuple[int | None, RecordColumns]]:
        """The records for each partition (None: any). The group with the last record comes last."""
        if records.keys is None or len(self._parts) == 1:
            return [(None, records)]
        groups = group_by_partition(records.keys, len(self._parts))
        last = len(records) - 1
        ordered = sorted(groups.items(), key=lambda group: group[1][-1] == last)
        return [(number, records.chosen(members)) for number, members in ordered]

    async def _send_run(
        self,
        number: int | None,
        records: RecordColumns,
        times: tuple[int, Timing | None],
        outcomes: list[FrameOutcome],
    ) -> int:
        """Queue records for one partition; returns the last one's index in its frame.

        Adds the outcomes of their frames to ``outcomes``. ``times`` are the publish time and the
        other times.
        """
        time, other_times = times
        totals, largest = records.totals(), max(records.costs)
        budget = self._budget
        start = index = 0
        while start < len(records):
            while budget.used >= budget.limit and not self._closed:
                await budget.change()
            part = self._part_for(None) if number is None else self._parts[number]
            if self._closed or part.failure is not None or largest > part.max_record:
                raise self._refusal(part, largest)
            end = fitting(totals, start, *part.room(time, other_times))
            if end == start:
                if part.open_batch is not None:
                    part.pack()
                    await _turn()
                    continue
                end = start + 1  # larger than a usual frame: it gets a frame of its own
            cost = totals[end - 1] - (totals[start - 1] if start else 0)
            outcome, index = part.add_many(records.piece(start, end), time, cost, other_times)
            outcomes.append(outcome)
            start = end
        return index

    async def flush(self) -> None:
        """Wait until everything sent so far is acknowledged: durable, on a reliable topic.

        Waits at most ``send_timeout``. Raises the first error that was not yet raised by awaiting a
        ticket, and ``Closed`` after :meth:`close`.
        """
        if self._closed:
            raise closed_error("producer")
        await self._settle()
        self._raise_unseen()

    async def _settle(self) -> None:
        for outcome in [outcome for part in self._parts for outcome in part.outstanding()]:
            if not outcome.settled:
                await outcome.wait()

    def _raise_unseen(self) -> None:
        for part in self._parts:
            if part.first_failed is not None and not part.first_failed.seen:
                part.first_failed.check()

    def _part_for(self, key: bytes | None) -> PartitionProducer:
        parts = self._parts
        if len(parts) == 1:
            return parts[0]
        if key is not None and parts:
            return parts[partition_of(key, len(parts))]
        if not parts:
            raise Closed("the producer is not open yet: use it in `async with`")
        if parts[self._turn_of].open_batch is None:
            self._turn_of = (self._turn_of + 1) % len(parts)
        return parts[self._turn_of]

    def _refusal(self, part: PartitionProducer, cost: int) -> SulinaError:
        if self._closed:
            return closed_error("producer")
        if part.failure is not None:
            return part.failure.with_traceback(None)
        return TooLarge(
            f"a record of {cost} bytes is too large for {part.topic}: "
            f"the maximum is {part.max_record} bytes"
        )

    async def _expire(self) -> None:
        clock, timeout = self._runtime.clock, self._options.send_timeout
        while True:
            await clock.sleep(min(timeout / 4, 1.0))
            for part in self._parts:
                part.expire(clock.now())
