"""A producer of a stock client: messages that arrive together share a frame.

One frame of a producer is in progress at a time. Messages that arrive meanwhile form the next one,
with those that ``BatchDelay`` waits for. So a single message never waits, and many concurrent ones
cost one append.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Final

from broker_containers.doors.danube.batch_delay import BatchDelay
from broker_containers.doors.danube.messages import DanubeRecord, frame_of
from broker_containers.doors.danube.settings import FRAME_BYTES, FRAME_RECORDS
from broker_containers.quotas.rates import Direction
from broker_containers.schemas.checks import TopicSchemaCheck
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from storage_grpc.ledgers import Ledgers
from storage_grpc.outcomes import Done, future_of
from sulina.errors import NotFound, Refused, Retriable, SulinaError, TooLarge
from sulina.runtime.seam import Clock
from sulina.wire.header import parse_header

_STEP_SECONDS: Final = 0.002
_MAX_WAIT_SECONDS: Final = 0.01
"""See ``BatchDelay``."""


@dataclass(slots=True, eq=False)
class _Waiting:
    record: DanubeRecord
    done: Done
    alone: bool = False
    """It was in a refused frame and gets a frame of its own, to find the message at fault."""


class DanubeProducer:
    """The sink of one producer, for all clients that use its name. Call :meth:`attach` first."""

    def __init__(
        self,
        topic: Topic,
        ledgers: Ledgers,
        clock: Clock,
        check: TopicSchemaCheck,
    ) -> None:
        """``check`` checks messages against the topic's schema."""
        self.topic = topic
        self.name = ""
        self._check = check
        self.seen = clock.now()
        """Time of the last message or health check."""
        self.gone: SulinaError | None = None
        """Why it is detached; None while it is attached."""
        self._ledgers = ledgers
        self._clock = clock
        self._producer: TopicProducer | None = None
        self._sequence = 0
        self._frames = 0
        self._pending: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._batch_delay = BatchDelay(_STEP_SECONDS, _MAX_WAIT_SECONDS)
        self._scheduled = False
        self._look: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def attach(self, name: str, now_us: int, *, exclusive: bool, principal: str) -> None:
        """Attach to the topic. Raises the same errors as ``Topic.attach``."""
        self.name = name
        self._producer = await self.topic.attach(
            name, self, exclusive=exclusive, principal=principal
        )
        # Stock clients send no sequence numbers, so a retry can't be told from a new message.
        # Numbers that start at the current time are new, whatever happened to earlier frames.
        last = self.topic.log.dedup.last_sequence(self._producer.id)
        self._sequence = max(last + 1, now_us)

    def detach(self) -> None:
        """Detach: the client has gone silent."""
        self._end(Retriable("the producer sent nothing for too long: create it again"))

    @property
    def replaced(self) -> bool:
        """Whether a client of another door took the name over, which then keeps it."""
        return isinstance(self.gone, Refused) and not isinstance(self.gone, NotFound)

    @property
    def idle(self) -> bool:
        """Whether no message is waiting or in progress."""
        return not self._pending and not self._under_way

    async def send(self, record: DanubeRecord) -> None:
        """Publish one message; durable when this returns, if the topic is reliable.

        Raises ``Refused`` if it violates a policy of the topic. It is published even if the caller
        is cancelled.
        """
        await self._check.check(*record.schema, record.payload)
        await future_of(partial(self.send_now, record))

    def takes(self, schema_id: int, schema_version: int) -> bool:
        """Whether :meth:`send_now` may be used for messages of a schema."""
        return self._check.passes(schema_id, schema_version)

    def send_now(self, record: DanubeRecord, done: Done) -> None:
        """Publish a message whose schema need not be checked; ``done`` gets the outcome.

        Saves a future and a coroutine per message. Raises the errors that are known without
        waiting; ``done`` is called later.
        """
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        limit = self.topic.policy.max_message_size
        if limit and len(record.payload) > limit:
            size = len(record.payload)
            raise TooLarge(f"a message of {size} bytes is over the topic's limit of {limit}")
        self._pending.append(_Waiting(record, done))
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
            step = _STEP_SECONDS
            self._look = self._loop.call_later(step, self._gather)
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
        if self._under_way or not self._pending or self._producer is None or self._waiting:
            return
        if self._ledgers.overloaded:
            self._waiting = asyncio.create_task(self._wait(self._ledgers.wait_writable()))
            return
        self.seen = self._clock.now()
        self._under_way = self._take()
        records = [waiting.record for waiting in self._under_way]
        try:
            frame = memoryview(bytearray(frame_of(self._producer.name, self._sequence, records)))
        except SulinaError as error:
            self._settle(error)
            return
        self._sequence += len(records)
        self._frames += 1
        quotas, held = self.topic.quotas, self._producer.held
        self.topic.publish(self._producer, self._frames, frame, parse_header(frame))
        if quotas is not None and held is not None and Direction.PUBLISH in quotas.limited:
            delay = quotas.delay(Direction.PUBLISH, held.where, len(records), len(frame))
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

    def _settle(self, error: SulinaError | None) -> None:
        taken, self._under_way = self._under_way, []
        self._batch_delay.answered(len(taken) + len(self._pending), self._clock.now())
        if len(taken) > 1 and isinstance(error, Refused) and self.gone is None:
            # One of them is at fault: retry each in a frame of its own.
            for waiting in reversed(taken):
                waiting.alone = True
                self._pending.appendleft(waiting)
        else:
            _finish(taken, error)
        self._soon()

    # ---- what the topic calls ----

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        self._settle(None)

    def publish_failed(self, number: int, error: SulinaError) -> None:
        self._settle(error)
        if not isinstance(error, Refused):
            self._end(
                error
            )  # the topic takes no more frames from it: the next message attaches it again

    def closed(self, reason: SulinaError) -> None:
        # The topic still reports the outcome of the frame in progress.
        self._producer = None
        self._end(reason)

    def _end(self, reason: SulinaError) -> None:
        self.gone = self.gone or reason
        producer, self._producer = self._producer, None
        if producer is not None:
            self.topic.detach(producer)
        if self._waiting is not None:
            self._waiting.cancel()
        pending, self._pending = list(self._pending), deque()
        _finish(pending, self.gone)


def _finish(settled: list[_Waiting], error: SulinaError | None) -> None:
    for waiting in settled:
        waiting.done(error)
