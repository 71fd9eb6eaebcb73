"""A consumer of a stock client: turns frames of its subscription into messages on its stream.

Both its unacknowledged messages and the bytes that wait for its stream are bounded; beyond that the
subscription stops delivering. It is attached to the subscription when it subscribes, so that it
misses nothing published from then on, and detached when its stream ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from typing import Final

from broker_containers.doors.danube.message_encoder import MessageEncoder
from broker_containers.doors.danube.settings import MAX_MESSAGE_BYTES
from broker_containers.doors.danube.tracing import DeliverySpans
from broker_containers.quotas.rates import Direction
from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.topic import Topic
from sulina.errors import Retriable, SulinaError
from sulina.model import Delivery
from sulina.wire.decode import Frame

_log = logging.getLogger(__name__)
_MAX_UNACKED: Final = 256
"""Unacknowledged messages of a consumer; no more are delivered beyond this."""
_STREAM_BYTES: Final = 4 << 20
"""Frames waiting for a consumer's stream; the subscription stops delivering beyond this."""
_BATCH_BYTES: Final = 64 << 10
"""Messages that are given to the stream at once."""
_NO_LIMIT: Final = 1 << 60
"""Bytes are limited by what waits for the stream, not by credit."""

SendNow = Callable[[Sequence[bytes]], bool]
"""Sends messages without waiting; false if nothing more may be sent before the client has them."""


class DanubeConsumer:
    """The sink of one consumer, for one stream; the next stream gets another sink."""

    def __init__(self, topic: Topic, broker_url: str, spans: DeliverySpans) -> None:
        self.topic = topic
        self._spans = spans
        self.streaming = False
        self.gone: SulinaError | None = None
        """Why it is detached; None while it is attached."""
        self._reliable = topic.delivery is Delivery.RELIABLE
        self._encoder = MessageEncoder(topic.name, broker_url, numbered=self._reliable)
        self._subscription: Subscription | None = None
        self._member: AttachedConsumer | None = None
        self._frames: deque[tuple[CachedFrame, int | None]] = deque()
        self._in_parts: tuple[CachedFrame, Frame] | None = None
        self._bytes = 0
        self._full = False
        self._wanted = asyncio.Event()
        self._send_now: SendNow | None = None
        """Set while nothing waits for the stream."""

    def join(
        self, subscription: Subscription, name: str, filters: tuple[str, ...], principal: str
    ) -> None:
        """Attach to a subscription. Nothing is delivered before :meth:`messages` runs.

        Raises the same errors as ``Topic.join``.
        """
        self._subscription = subscription
        self._member = self.topic.join(subscription, name, self, filters, principal)

    def leave(self, reason: SulinaError) -> None:
        """Detach: unacknowledged messages are delivered again, perhaps to other consumers."""
        member, self._member = self._member, None
        if member is not None and self._subscription is not None:
            self._subscription.leave(member)
        self.closed(reason)

    async def messages(self, send_now: SendNow) -> AsyncGenerator[list[bytes]]:
        """The messages for the consumer, encoded, those of a frame together.

        Only those that had to wait: all others are given to ``send_now``, in the same order. Raises
        the reason when it is detached.
        """
        self.streaming = True
        self._grant(_MAX_UNACKED)
        while True:
            while self._frames:
                frame, chosen = self._frames.popleft()
                opened = self._open(frame, chosen)
                quotas, member = self.topic.quotas, self._member
                if quotas is not None and member is not None and member.held is not None:
                    records = frame.header.count if chosen is None else chosen.bit_count()
                    where = member.held.where
                    await quotas.pace(Direction.DISPATCH, where, records, frame.header.size)
                for batch in self._batches(opened, chosen):
                    if self.gone is not None:
                        raise self.gone
                    yield batch
                    if not self._reliable:
                        self._grant(len(batch))
                self._sent(frame.header.size)
            if self.gone is not None:
                raise self.gone
            self._wanted.clear()
            self._send_now = send_now
            await self._wanted.wait()
            self._send_now = None
            yield []  # waits until the client has what was sent meanwhile

    def _batches(self, frame: Frame, chosen: int | None) -> Iterator[list[bytes]]:
        """The encoded messages of a frame, about 64 KiB at a time."""
        batch: list[bytes] = []
        size = 0
        traced = frame.attributes if self._reliable and self._spans.on else None
        for offset, message in self._encoder.messages_of(frame, chosen):
            if len(message) > MAX_MESSAGE_BYTES:
                self._refuse(offset)
                continue
            if traced is not None and self._subscription is not None:
                attributes = traced[offset - frame.header.base_offset]
                self._spans.delivered(
                    self._subscription, self, str(self.topic.name), offset, attributes
                )
            batch.append(message)
            size += len(message)
            if size >= _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    def _open(self, frame: CachedFrame, chosen: int | None) -> Frame:
        """Decode a frame; one that is delivered in parts is decoded once."""
        if self._in_parts is not None and self._in_parts[0] is frame:
            return self._in_parts[1]
        opened = Frame(frame.data, frame.header)
        self._in_parts = None if chosen is None else (frame, opened)
        return opened

    def _sent(self, size: int) -> None:
        self._bytes -= size
        if self._full and self._bytes <= _STREAM_BYTES // 2:
            self._full = False
            if self._subscription is not None and self._member is not None:
                self._subscription.writable(self._member)

    def _refuse(self, offset: int) -> None:
        """Reject a message that is too large for the client, which would request it forever."""
        _log.warning(
            "%s: the message at offset %d is too large for Danube's clients",
            self.topic.name,
            offset,
        )
        if self._reliable and self._subscription is not None and self._member is not None:
            reason = "too large for Danube's clients"
            self._subscription.nack(self._member, offset, offset, None, 0, reason)
        self._grant(1)

    def _grant(self, records: int) -> None:
        if self._subscription is not None and self._member is not None:
            bytes_ = _NO_LIMIT if self._member.granted == 0 else 0
            self._subscription.grant(self._member, records, bytes_)

    def settled(self, count: int) -> None:
        """Messages were acknowledged or rejected: grant credit for as many."""
        if self.streaming:
            self._grant(count)

    def recount(self) -> None:
        """Grant credit for messages whose ack timeout expired, which is not reported."""
        member, subscription = self._member, self._subscription
        if not self._reliable or not self.streaming or member is None or subscription is None:
            return
        if member.records > 0:
            return
        there = subscription.in_flight(member)
        missing = _MAX_UNACKED - there - member.records
        if missing > 0:
            self._grant(missing)

    # ---- what the subscription calls ----

    def deliver(self, frame: CachedFrame, chosen: int | None, attempt: int) -> bool:
        if self._send_now is not None and self._deliver_now(frame, chosen, self._send_now):
            return True
        self._frames.append((frame, chosen))
        self._bytes += frame.header.size
        self._full = self._bytes > _STREAM_BYTES
        self._wanted.set()
        return not self._full

    def _deliver_now(self, frame: CachedFrame, chosen: int | None, send_now: SendNow) -> bool:
        """Send a frame without waking the stream's task. False if it has to wait after all."""
        quotas = self.topic.quotas
        if frame.header.raw_length > _BATCH_BYTES or (
            quotas is not None and Direction.DISPATCH in quotas.limited
        ):
            return False
        try:
            batches = list(self._batches(self._open(frame, chosen), chosen))
            more = [send_now(batch) for batch in batches][-1:] != [False]
        except SulinaError:
            return False  # ends the stream, which raises it again
        if not self._reliable:
            self._grant(sum(map(len, batches)))
        if not more:
            self._send_now = None
            self._wanted.set()
        return True

    def active_changed(self, active: bool) -> None:
        """Danube's protocol has no message for it."""

    def closed(self, reason: Exception) -> None:
        self._member = None
        found = reason if isinstance(reason, SulinaError) else Retriable(str(reason))
        self.gone = self.gone or found
        self._send_now = None
        self._frames.clear()
        self._spans.left(self)
        self._wanted.set()
