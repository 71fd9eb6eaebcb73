"""The producer: what an application publishes with."""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Self

from sulina.client.batching import RECORD_OVERHEAD, fitting
from sulina.client.budget import Budget
from sulina.client.delays import Delay, DeliverAt, due_time
from sulina.client.lane import Lane
from sulina.client.linger import Linger
from sulina.client.options import ClientOptions, ProducerOptions
from sulina.client.records import Records, as_attributes, as_key, as_payload, as_time
from sulina.client.retry import retry
from sulina.client.routing import group_by_partition, partition_of
from sulina.client.session import closed_error
from sulina.client.tasks import every, stop_tasks, together
from sulina.client.tickets import Outcome, Ticket
from sulina.client.topics import Topics
from sulina.errors import Closed, Refused, SulinaError, TooLarge
from sulina.runtime.seam import Buffer, Runtime


@types.coroutine
def _turn() -> Generator[None, None, None]:
    """Let the event loop go round once, so that a busy sender does not starve the network."""
    yield


class Producer:
    """Publishes to one topic. Made by ``Client.producer``; use it in ``async with``.

    Records that go to one topic or partition are stored in the order in which the sends returned.
    Each is stored once, also when connections are lost and frames are sent again. ``close`` (and
    the end of the ``async with``) waits until everything is settled, and raises the first error
    that no ticket has raised.
    """

    def __init__(
        self,
        options: ProducerOptions,
        client: ClientOptions,
        topics: Topics,
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
        self._lanes: list[Lane] = []
        self._turn_of = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False

    # ---- life ----

    @property
    def name(self) -> str:
        """The producer's name. One that publishes under the name of an earlier one continues
        its sequence."""
        return self._options.name

    @property
    def topic(self) -> str:
        """The topic as it was given, without a partition."""
        return self._options.topic

    @property
    def next_sequence(self) -> int:
        """The sequence of the next record: before the first send, one more than the last that is
        stored under this name. Of a topic without partitions, or of one partition, only."""
        return self._only_lane().next_sequence

    def skip_to(self, sequence: int) -> None:
        """Number the first record ``sequence``, unless the name has come further already.

        For programs that number their records themselves: what they stored before they were
        stopped is what ``next_sequence`` says. Call it before the first send. Of a topic without
        partitions, or of one partition, only.
        """
        self._only_lane().skip_to(sequence)

    def _only_lane(self) -> Lane:
        if len(self._lanes) != 1:
            raise Refused(
                f"{self.topic} has {len(self._lanes)} partitions, each with sequences of its own: "
                "open a producer for each of them"
            )
        return self._lanes[0]

    async def open(self) -> Self:
        """Find the topic and create the producer there; ``async with`` does it.

        Waits for the broker, at most for the operation timeout. Raises what the broker refuses,
        or ``Unavailable``.
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
        self._lanes = [
            Lane(
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
            await together([lane.open for lane in self._lanes])
        except BaseException:
            await self.abandon()
            raise
        self._tasks = [
            asyncio.create_task(self._linger.run()),
            asyncio.create_task(self._expire()),
        ]
        return self

    async def close(self) -> None:
        """Flush, say goodbye to the broker, and refuse further sends. May be called again.

        Waits for what is pending, at most for the send timeout. Raises as :meth:`flush` does,
        after everything is closed.
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
        """Close without waiting for what is pending: its tickets fail. Raises nothing."""
        if not self._closed:
            self._closed = True
            await self._leave()

    async def _leave(self) -> None:
        await stop_tasks(self._tasks)
        await every([lane.close for lane in self._lanes])
        self._budget.wake()
        self._on_close(self)

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            with contextlib.suppress(SulinaError):  # the error on its way out came first
                await self.close()
        else:
            await self.abandon()

    # ---- sending ----

    async def send(
        self,
        payload: Buffer,
        *,
        key: bytes | str | None = None,
        attributes: Mapping[str, str] | None = None,
        publish_time_us: int | None = None,
        deliver_at: DeliverAt | None = None,
        delay: Delay | None = None,
    ) -> Ticket:
        """Hand over one record; the ticket becomes its id once it is stored.

        Waits only while ``max_pending_bytes`` are on their way already. Records with the same
        ``key`` go to the same partition.

        No subscription delivers the record before ``deliver_at`` (a datetime with a time zone, or
        seconds since 1970), or before ``delay`` (a timedelta or seconds, rounded up by at most a
        hundredth or 1 ms) has passed; others overtake it. Reliable topics only.

        Raises ``TooLarge`` and ``Refused`` for a record that can't be sent, ``Closed``, and what
        has put an end to the producer.
        """
        if type(payload) is not bytes:
            payload = as_payload(payload)
        cost = len(payload) + RECORD_OVERHEAD
        if key is not None:
            key = as_key(key)
            cost += len(key)
        if attributes:
            attributes, size = as_attributes(attributes)
            cost += size
        due = None
        if deliver_at is not None or delay is not None:
            due = due_time(deliver_at, delay, self._wall_us())
        budget = self._budget
        while True:
            while budget.used >= budget.limit and not self._closed:
                await budget.change()
            lane = self._lane_for(key)
            if self._closed or lane.failure is not None or cost > lane.max_record:
                raise self._refusal(lane, cost)
            if due is not None:
                lane.check_due(due, self._wall_us())
            time = self._wall_us() if publish_time_us is None else as_time(publish_time_us)
            if not lane.make_room(cost, time, due):
                return Ticket(*lane.add(payload, key, attributes, time, cost, due))
            await _turn()

    async def send_many(
        self,
        payloads: Sequence[Buffer],
        *,
        keys: Sequence[bytes | str | None] | None = None,
        attributes: Sequence[Mapping[str, str] | None] | None = None,
        publish_time_us: int | None = None,
        deliver_at: DeliverAt | None = None,
        delay: Delay | None = None,
    ) -> Ticket:
        """Hand over many records at once: much faster than one by one.

        ``keys`` and ``attributes`` have an entry for each payload; ``deliver_at`` and ``delay``,
        as with :meth:`send`, hold for all. The ticket is done when all
        records are, and becomes the id of the last. Waits under backpressure, with part of the
        records on their way; raises as :meth:`send` does, with nothing sent if a record is
        not acceptable.
        """
        records = Records.check(payloads, keys, attributes)
        now = self._wall_us()
        time = now if publish_time_us is None else as_time(publish_time_us)
        due = due_time(deliver_at, delay, now)
        if due is not None:
            for lane in self._lanes:
                lane.check_due(due, now)
        outcomes: list[Outcome] = []
        index = 0
        for number, run in self._runs(records):
            index = await self._send_run(number, run, (time, due), outcomes)
        return Ticket(outcomes.pop(), index, outcomes)

    def _runs(self, records: Records) -> list[tuple[int | None, Records]]:
        """The records for each partition (None: any), those with the last record last."""
        if records.keys is None or len(self._lanes) == 1:
            return [(None, records)]
        groups = group_by_partition(records.keys, len(self._lanes))
        last = len(records) - 1
        ordered = sorted(groups.items(), key=lambda group: group[1][-1] == last)
        return [(number, records.chosen(members)) for number, members in ordered]

    async def _send_run(
        self,
        number: int | None,
        records: Records,
        times: tuple[int, int | None],
        outcomes: list[Outcome],
    ) -> int:
        """Send records to one partition; adds their frames' outcomes, returns the last's index.

        ``times``: of their publishing, and of their delivery.
        """
        time, due = times
        totals, largest = records.totals(), max(records.costs)
        budget = self._budget
        start = index = 0
        while start < len(records):
            while budget.used >= budget.limit and not self._closed:
                await budget.change()
            lane = self._lane_for(None) if number is None else self._lanes[number]
            if self._closed or lane.failure is not None or largest > lane.max_record:
                raise self._refusal(lane, largest)
            end = fitting(totals, start, *lane.room(time, due))
            if end == start:
                if lane.draft is not None:
                    lane.seal()
                    await _turn()
                    continue
                end = start + 1  # larger than a frame's usual size: it gets one of its own
            cost = totals[end - 1] - (totals[start - 1] if start else 0)
            outcome, index = lane.add_many(records.piece(start, end), time, cost, due)
            outcomes.append(outcome)
            start = end
        return index

    async def flush(self) -> None:
        """Wait until everything sent so far is settled: durable, on a reliable topic.

        Raises the first error that no ticket has raised yet. Takes at most the send timeout.
        """
        if self._closed:
            raise closed_error("producer")
        await self._settle()
        self._raise_unseen()

    async def _settle(self) -> None:
        for outcome in [outcome for lane in self._lanes for outcome in lane.outstanding()]:
            if not outcome.settled:
                await outcome.wait()

    def _raise_unseen(self) -> None:
        for lane in self._lanes:
            if lane.first_failed is not None and not lane.first_failed.seen:
                lane.first_failed.check()

    def _lane_for(self, key: bytes | None) -> Lane:
        lanes = self._lanes
        if len(lanes) == 1:
            return lanes[0]
        if key is not None and lanes:
            return lanes[partition_of(key, len(lanes))]
        if not lanes:
            raise Closed("the producer is not open yet: use it in `async with`")
        if lanes[self._turn_of].draft is None:
            self._turn_of = (self._turn_of + 1) % len(lanes)
        return lanes[self._turn_of]

    def _refusal(self, lane: Lane, cost: int) -> SulinaError:
        if self._closed:
            return closed_error("producer")
        if lane.failure is not None:
            return lane.failure.with_traceback(None)
        return TooLarge(
            f"a record of {cost} bytes is too large for {lane.topic}: "
            f"at most {lane.max_record} can be sent"
        )

    async def _expire(self) -> None:
        clock, timeout = self._runtime.clock, self._options.send_timeout
        while True:
            await clock.sleep(min(timeout / 4, 1.0))
            for lane in self._lanes:
                lane.expire(clock.now())
