"""A consumer of a stock client: frames from its subscription become single messages on its stream.

What it may have unacknowledged is bounded, and so is what waits for its stream; beyond that its
subscription holds back. Its place in the subscription is taken when it subscribes, so that nothing
published from then on is missed, and given up when its stream ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator
from typing import Final

from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.messages import messages_of
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.subscriptions.consumers import AttachedConsumer
from broker_containers.subscriptions.subscription import Subscription
from broker_containers.topics.topic import Topic
from sulina.errors import Retriable, SulinaError
from sulina.model import Delivery
from sulina.runtime.seam import Buffer
from sulina.wire.decode import Frame

_log = logging.getLogger(__name__)
_NO_LIMIT: Final = 1 << 60
"""Bytes are bounded by what waits for the stream, not by credit."""


class DanubeConsumer:
    """The sink of one consumer. Its stream is opened once; the next one takes another sink."""

    def __init__(self, topic: Topic, broker_url: str, settings: DanubeSettings) -> None:
        self.topic = topic
        self.streaming = False
        self.gone: SulinaError | None = None
        """Why nothing comes any more."""
        self._reliable = topic.delivery is Delivery.RELIABLE
        self._broker_url = broker_url
        self._settings = settings
        self._subscription: Subscription | None = None
        self._member: AttachedConsumer | None = None
        self._frames: deque[tuple[Buffer, int | None]] = deque()
        self._in_parts: tuple[Buffer, Frame] | None = None
        self._bytes = 0
        self._full = False
        self._wanted = asyncio.Event()

    def join(
        self, subscription: Subscription, name: str, filters: tuple[str, ...], limit: int
    ) -> None:
        """Take a place, as ``Subscription.join``. Nothing is delivered before :meth:`messages`."""
        self._subscription = subscription
        self._member = subscription.join(name, self, filters, limit)

    def leave(self, reason: SulinaError) -> None:
        """Give the place up: what is not acknowledged goes to others, or comes again."""
        member, self._member = self._member, None
        if member is not None and self._subscription is not None:
            self._subscription.leave(member)
        self.closed(reason)

    async def messages(self) -> AsyncGenerator[pb.StreamMessage]:
        """What the consumer gets, one by one. Raises the reason when that ends."""
        self.streaming = True
        self._grant(self._settings.max_unacked)
        while True:
            while self._frames:
                frame, chosen = self._frames.popleft()
                opened = self._open(frame, chosen)
                for message in messages_of(opened, chosen, self.topic.name, self._broker_url):
                    if self.gone is not None:
                        raise self.gone
                    if message.ByteSize() > self._settings.max_message_bytes:
                        self._refuse(message.msg_id.topic_offset)
                    else:
                        yield message
                    if not self._reliable:
                        self._grant(1)
                self._sent(len(frame))
            if self.gone is not None:
                raise self.gone
            self._wanted.clear()
            await self._wanted.wait()

    def _open(self, frame: Buffer, chosen: int | None) -> Frame:
        """A frame that comes in parts is opened once, not for each of them."""
        if self._in_parts is not None and self._in_parts[0] is frame:
            return self._in_parts[1]
        opened = Frame(frame)
        self._in_parts = None if chosen is None else (frame, opened)
        return opened

    def _sent(self, size: int) -> None:
        self._bytes -= size
        if self._full and self._bytes <= self._settings.stream_bytes // 2:
            self._full = False
            if self._subscription is not None and self._member is not None:
                self._subscription.writable(self._member)

    def _refuse(self, offset: int) -> None:
        """A message that the client could not receive: it would ask for it for ever."""
        _log.warning(
            "%s: the message at offset %d is larger than stock clients receive",
            self.topic.name,
            offset,
        )
        if self._reliable and self._subscription is not None and self._member is not None:
            reason = "larger than Danube's clients receive"
            self._subscription.nack(self._member, offset, offset, None, 0, reason)
            self._grant(1)

    def _grant(self, records: int) -> None:
        if self._subscription is not None and self._member is not None:
            bytes_ = _NO_LIMIT if self._member.granted == 0 else 0
            self._subscription.grant(self._member, records, bytes_)

    def settled(self) -> None:
        """One of the messages it had was acknowledged or given back: there is room for another."""
        if self.streaming:
            self._grant(1)

    def recount(self) -> None:
        """Give credit for what timed out: nobody tells of that."""
        member, subscription = self._member, self._subscription
        if not self._reliable or not self.streaming or member is None or subscription is None:
            return
        if member.records > 0:
            return
        there = subscription.in_flight(member)
        missing = self._settings.max_unacked - there - member.records
        if missing > 0:
            self._grant(missing)

    # ---- what the subscription calls ----

    def deliver(self, frame: Buffer, chosen: int | None, attempt: int) -> bool:
        self._frames.append((frame, chosen))
        self._bytes += len(frame)
        self._full = self._bytes > self._settings.stream_bytes
        self._wanted.set()
        return not self._full

    def active_changed(self, active: bool) -> None:
        """Stock clients are not told."""

    def closed(self, reason: Exception) -> None:
        self._member = None
        found = reason if isinstance(reason, SulinaError) else Retriable(str(reason))
        self.gone = self.gone or found
        self._frames.clear()
        self._wanted.set()
