"""Publishes what stock clients send to a topic: messages that arrive together share a frame.

One frame is in progress at a time. Messages that arrive meanwhile form the next one, with those
that ``BatchDelay`` waits for. So a single message never waits, and many concurrent ones cost one
append, whether one producer sends them or many. A frame of one producer's messages is like any
other of that producer; one with messages of several has the name of each.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from broker_containers.doors.danube.batch_delay import BatchDelay
from broker_containers.doors.danube.messages import DanubeRecord, frame_of
from broker_containers.doors.danube.settings import FRAME_BYTES, FRAME_RECORDS
from broker_containers.quotas.rates import Direction, Subject
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from storage_grpc.ledgers import Ledgers
from storage_grpc.outcomes import Done
from sulina.errors import Refused, SulinaError
from sulina.runtime.seam import Clock
from sulina.wire.encode import SEVERAL_PRODUCERS
from sulina.wire.header import parse_header

_STEP_SECONDS: Final = 0.002
_MAX_WAIT_SECONDS: Final = 0.01
"""See ``BatchDelay``."""


class Sender(Protocol):
    """A producer whose messages are published."""

    name: str
    gone: SulinaError | None
    producer: TopicProducer | None
    """None once it is detached."""

    def settled(self, now: float) -> None:
        """The outcome of one of its messages is known."""
        ...

    def failed(self, error: SulinaError) -> None:
        """The topic takes no more frames from it."""
        ...


@dataclass(slots=True, eq=False)
class _Waiting:
    record: DanubeRecord
    done: Done
    sender: Sender
    alone: bool = False
    """It was in a refused frame and gets a frame of its own, to find the message at fault."""


class TopicPublisher:
    """For the producers of a topic that count in the same quotas, ``where``."""

    def __init__(
        self,
        topic: Topic,
        where: tuple[Subject, ...],
        ledgers: Ledgers,
        clock: Clock,
        unused: Callable[[], None],
    ) -> None:
        """``unused`` is called when the last producer has left."""
        self._topic = topic
        self._where = where
        self._ledgers = ledgers
        self._clock = clock
        self._unused = unused
        self._senders: set[Sender] = set()
        self._several = TopicProducer(SEVERAL_PRODUCERS, self)
        """Publishes frames with messages of several producers."""
        self._sequence = 0
        self._frames = 0
        self._pending: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._batch_delay = BatchDelay(_STEP_SECONDS, _MAX_WAIT_SECONDS)
        self._scheduled = False
        self._look: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    # ---- producers ----

    def join(self, sender: Sender) -> None:
        """Publish for one more producer."""
        self._senders.add(sender)
        # Stock clients send no sequence numbers, so a retry can't be told from a new message.
        # Numbers that start at the current time are new, whatever happened to earlier frames.
        self._sequence = max(self._sequence, self._clock.wall_us())

    def leave(self, sender: Sender, reason: SulinaError) -> None:
        """Publish no more for a producer. Its messages fail, unless they are in progress."""
        if sender not in self._senders:
            return
        self._senders.remove(sender)
        dropped = [waiting for waiting in self._pending if waiting.sender is sender]
        if dropped:
            self._pending = deque(each for each in self._pending if each.sender is not sender)
        if not self._senders:
            if self._waiting is not None:
                self._waiting.cancel()
            self._unused()
        self._finish(dropped, reason)

    # ---- messages ----

    def add(self, record: DanubeRecord, done: Done, sender: Sender) -> None:
        """Publish a message of a producer that has joined. ``done`` gets the outcome, later."""
        self._pending.append(_Waiting(record, done, sender))
        if not self._scheduled:
            self._soon()
        elif self._look is not None and self._batch_delay.complete(len(self._pending)):
            self._look.cancel()
            self._look = None
            self._loop.call_soon(self._publish)

    def _soon(self) -> None:
        """Publish in the next iteration of the event loop, with all that arrives in this one."""
        if self._pending and not self._under_way and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._gather)

    def _gather(self) -> None:
        """Publish, or wait a step for more messages."""
        self._look = None
        waits = self._batch_delay.keeps_waiting(len(self._pending), self._clock.now())
        if waits and not self._fills_a_frame():
            self._look = self._loop.call_later(self._batch_delay.step, self._gather)
        else:
            self._publish()

    def _fills_a_frame(self) -> bool:
        """Whether the next frame can't take more messages."""
        pending = self._pending
        return (
            pending[0].alone
            or len(pending) >= FRAME_RECORDS
            or sum(waiting.record.size for waiting in pending) >= FRAME_BYTES
        )

    def _publish(self) -> None:
        self._scheduled = False
        if self._under_way or not self._pending or self._waiting:
            return
        if self._ledgers.overloaded:
            self._waiting = asyncio.create_task(self._wait(self._ledgers.wait_writable()))
            return
        taken = self._under_way = self._take()
        first = taken[0].sender
        producer, names = first.producer, None
        if any(waiting.sender is not first for waiting in taken):
            producer, names = self._several, [waiting.sender.name for waiting in taken]
        assert producer is not None, "those who leave take their messages along"
        records = [waiting.record for waiting in taken]
        # Another publisher of the topic may have used higher numbers for several producers.
        last = self._topic.log.dedup.last_sequence(producer.id)
        self._sequence = max(self._sequence, last + 1)
        try:
            made = frame_of(producer.name, self._sequence, records, names)
        except SulinaError as error:
            self._settle(error)
            return
        frame = memoryview(bytearray(made))
        self._sequence += len(records)
        self._frames += 1
        self._topic.publish(producer, self._frames, frame, parse_header(frame))
        quotas = self._topic.quotas
        if quotas is not None and Direction.PUBLISH in quotas.limited:
            delay = quotas.delay(Direction.PUBLISH, self._where, len(records), len(frame))
            if delay:
                self._waiting = asyncio.create_task(self._wait(self._clock.sleep(delay)))

    async def _wait(self, until: Awaitable[None]) -> None:
        """Publish nothing before ``until``."""
        try:
            await until
        finally:
            self._waiting = None
        self._soon()

    def _take(self) -> list[_Waiting]:
        pending = self._pending
        taken = [pending.popleft()]
        first, size = taken[0], taken[0].record.size
        while (
            pending
            and not (first.alone or pending[0].alone)
            and len(taken) < FRAME_RECORDS
            and size + pending[0].record.size <= FRAME_BYTES
            and pending[0].record.fits(first.record)
        ):
            size += pending[0].record.size
            taken.append(pending.popleft())
        return taken

    # ---- outcomes ----

    def _settle(self, error: SulinaError | None) -> None:
        taken, self._under_way = self._under_way, []
        self._batch_delay.answered(len(taken) + len(self._pending), self._clock.now())
        if len(taken) > 1 and isinstance(error, Refused):
            # One of them is at fault: retry each in a frame of its own.
            again = [waiting for waiting in taken if waiting.sender.gone is None]
            taken = [waiting for waiting in taken if waiting.sender.gone is not None]
            for waiting in reversed(again):
                waiting.alone = True
                self._pending.appendleft(waiting)
        self._finish(taken, error)
        self._soon()

    def _finish(self, settled: list[_Waiting], error: SulinaError | None) -> None:
        now = self._clock.now()
        for waiting in settled:
            waiting.sender.settled(now)
            waiting.done(error)

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        """The frame in progress is durable; the topic calls it, as the following ones."""
        self._settle(None)

    def publish_failed(self, number: int, error: SulinaError) -> None:
        """The frame in progress was rejected."""
        senders = {waiting.sender for waiting in self._under_way}
        self._settle(error)
        if not isinstance(error, Refused):
            self._several = TopicProducer(SEVERAL_PRODUCERS, self)
            for sender in senders:
                sender.failed(error)

    def closed(self, reason: SulinaError) -> None:
        """Never called: the topic disconnects the producers, which then leave."""
