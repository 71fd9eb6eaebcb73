"""A producer of a stock client at its topic: messages that wait together share a frame.

One frame of a producer is under way at a time; what comes meanwhile is the next one, with what
``BatchDelay`` waits for. So a lone message waits for nobody, and many at once cost one append.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass

from broker_containers.doors.danube.batch_delay import BatchDelay
from broker_containers.doors.danube.messages import DanubeRecord, frame_of
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.schemas.checks import TopicSchemaCheck
from broker_containers.topics.producers import TopicProducer
from broker_containers.topics.topic import Topic
from storage_grpc.ledgers import Ledgers
from sulina.errors import NotFound, Refused, Retriable, SulinaError, TooLarge
from sulina.runtime.seam import Clock
from sulina.wire.header import parse_header


@dataclass(slots=True, eq=False)
class _Waiting:
    record: DanubeRecord
    outcome: asyncio.Future[None]
    alone: bool = False
    """It was in a frame that was refused: the next one holds nothing else, to find the culprit."""


class DanubeProducer:
    """The sink of one producer, for all clients that use its name. Made by :meth:`attach`."""

    def __init__(
        self,
        topic: Topic,
        ledgers: Ledgers,
        clock: Clock,
        settings: DanubeSettings,
        gate: TopicSchemaCheck | None,
    ) -> None:
        """``gate`` decides about the schemas of messages, if the broker has a registry."""
        self.topic = topic
        self.name = ""
        self._gate = gate
        self.seen = clock.now()
        """When a client last sent something or asked for its health."""
        self.gone: SulinaError | None = None
        """Why it can't be used any more."""
        self._ledgers = ledgers
        self._clock = clock
        self._settings = settings
        self._producer: TopicProducer | None = None
        self._sequence = 0
        self._frames = 0
        self._pending: deque[_Waiting] = deque()
        self._under_way: list[_Waiting] = []
        self._batch_delay = BatchDelay(settings.gather_step_seconds, settings.gather_seconds)
        self._scheduled = False
        self._look: asyncio.TimerHandle | None = None
        self._waiting: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()

    async def attach(self, name: str, now_us: int, *, exclusive: bool) -> None:
        """Become a producer of the topic, as ``Topic.attach``."""
        self.name = name
        self._producer = await self.topic.attach(name, self, exclusive=exclusive)
        # Stock clients have no sequences: the repeat of a message looks like another one. Numbers
        # that begin at the time are new ones, whatever became of frames before a failure.
        last = self.topic.log.dedup.last_sequence(self._producer.id)
        self._sequence = max(last + 1, now_us)

    def detach(self) -> None:
        """The client is gone."""
        self._end(Retriable("the producer was not heard of for a while: create it again"))

    @property
    def replaced(self) -> bool:
        """Whether another client took the name, from another door: then it stays with that one."""
        return isinstance(self.gone, Refused) and not isinstance(self.gone, NotFound)

    @property
    def idle(self) -> bool:
        """Whether nothing waits."""
        return not self._pending and not self._under_way

    async def send(self, record: DanubeRecord) -> None:
        """Publish one message; durable when this returns, if the topic is reliable.

        Raises ``Refused`` if it breaks a rule of the topic. It is published also if the caller is
        cancelled.
        """
        if self._gate is not None:
            await self._gate.check(*record.schema, record.payload)
        await self._add(record)

    def send_now(self, record: DanubeRecord) -> asyncio.Future[None] | None:
        """What becomes of a message, as :meth:`send`; None if its schema must be looked at first.

        For one coroutine less a message. Raises as :meth:`send` what is known at once.
        """
        gate = self._gate
        if gate is not None and not gate.passes(*record.schema):
            return None
        return self._add(record)

    def _add(self, record: DanubeRecord) -> asyncio.Future[None]:
        if self.gone is not None:
            raise self.gone.with_traceback(None)
        limit = self.topic.policy.max_message_size
        if limit and len(record.payload) > limit:
            size = len(record.payload)
            raise TooLarge(f"a message of {size} bytes is over the topic's limit of {limit}")
        outcome: asyncio.Future[None] = self._loop.create_future()
        self._pending.append(_Waiting(record, outcome))
        if not self._scheduled:
            self._soon()
        elif self._look is not None and self._batch_delay.complete(len(self._pending)):
            self._look.cancel()
            self._look = None
            self._loop.call_soon(self._publish)
        return outcome

    def _soon(self) -> None:
        """Publish in the next turn of the loop: what arrives in this one goes along."""
        if self._pending and not self._under_way and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._gather)

    def _gather(self) -> None:
        """Publish, or wait a moment for more."""
        self._look = None
        goes_on = self._batch_delay.goes_on(len(self._pending), self._clock.now())
        if goes_on and not self._fills_a_frame():
            step = self._settings.gather_step_seconds
            self._look = self._loop.call_later(step, self._gather)
        else:
            self._publish()

    def _fills_a_frame(self) -> bool:
        """Whether more messages would not be in the next frame anyhow."""
        pending, settings = self._pending, self._settings
        return (
            pending[0].alone
            or len(pending) >= settings.frame_records
            or sum(waiting.record.size for waiting in pending) >= settings.frame_bytes
        )

    def _publish(self) -> None:
        self._scheduled = False
        if self._under_way or not self._pending or self._producer is None:
            return
        if self._ledgers.overloaded:
            if self._waiting is None:
                self._waiting = asyncio.create_task(self._wait_for_storage())
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
        self.topic.publish(self._producer, self._frames, frame, parse_header(frame))

    async def _wait_for_storage(self) -> None:
        try:
            await self._ledgers.wait_writable()
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
            and len(taken) < self._settings.frame_records
            and size + pending[0].record.size <= self._settings.frame_bytes
            and pending[0].record.fits(first.record)
        ):
            size += pending[0].record.size
            taken.append(pending.popleft())
        return taken

    def _settle(self, error: SulinaError | None) -> None:
        taken, self._under_way = self._under_way, []
        self._batch_delay.answered(len(taken) + len(self._pending), self._clock.now())
        if len(taken) > 1 and isinstance(error, Refused) and self.gone is None:
            # One of them is wrong, and the others must not suffer for it.
            for waiting in reversed(taken):
                waiting.alone = True
                self._pending.appendleft(waiting)
        else:
            _tell(taken, error)
        self._soon()

    # ---- what the topic calls ----

    def published(self, first_number: int, base_offsets: list[int]) -> None:
        self._settle(None)

    def publish_failed(self, number: int, error: SulinaError) -> None:
        self._settle(error)
        if not isinstance(error, Refused):
            self._end(error)  # nothing more is taken from this producer; the next one repairs

    def closed(self, reason: SulinaError) -> None:
        # The topic finishes what is under way, so its outcome comes all the same.
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
        _tell(pending, self.gone)


def _tell(settled: list[_Waiting], error: SulinaError | None) -> None:
    for waiting in settled:
        if waiting.outcome.done():
            continue  # the client did not wait
        if error is None:
            waiting.outcome.set_result(None)
        else:
            waiting.outcome.set_exception(error.with_traceback(None))
