"""Passes received frames to the application, message by message or batch by batch."""

from __future__ import annotations

from collections.abc import Iterator

from sulina.client.message import Batch, Message
from sulina.client.queue import FrameUnpacker, Inbox, ReceivedFrame
from sulina.errors import Closed, SulinaError
from sulina.wire import selection


class Receiver:
    """Any number of tasks may wait for messages. Cancelling one loses nothing: a message is taken
    from the queue at the moment it is returned."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.messages: Iterator[Message] = iter(())
        """The rest of the current batch; the fast path to the next message."""
        self._current: Batch | None = None
        self._end: SulinaError | None = Closed(
            "the consumer is not open yet: use it in `async with`"
        )

    async def next_message(self) -> Message:
        """Wait for the next message. Once nothing is left, raises the error that ended this."""
        while True:
            for message in self.messages:
                return message
            batch = self._poll()
            if batch is None:
                await self.inbox.news()
            else:
                self._current, self.messages = batch, iter(batch)

    async def next_batch(self) -> Batch:
        """Like :meth:`next_message`. The rest of a partly taken batch comes first."""
        while True:
            for message in self.messages:
                self.messages = iter(())
                return _from(message)
            batch = self._poll()
            if batch is not None:
                return batch
            await self.inbox.news()

    def _poll(self) -> Batch | None:
        while (delivery := self.inbox.first()) is not None:
            batch = delivery.part.unpack(delivery)
            self.inbox.remove_first()
            if batch:
                return batch
        if self._end is not None:
            raise self._end.with_traceback(None)
        return None

    def drop(self, part: FrameUnpacker) -> list[ReceivedFrame]:
        """Discard what ``part`` received and nobody took; returns the frames not yet decoded."""
        if self._current is not None and self._current.source is part:
            self.messages = iter(())
        return self.inbox.drop(part)

    def fail(self, error: SulinaError) -> None:
        """No more frames will arrive, because of ``error``."""
        if self._end is None:
            self._end = error
        self.inbox.wake()

    def begin(self) -> None:
        """Start receiving."""
        self._end = None

    def end(self, error: SulinaError) -> None:
        """Discard everything; further calls raise ``error``."""
        self.inbox.clear()
        self.messages = iter(())
        self._end = error
        self.inbox.wake()


def _from(message: Message) -> Batch:
    """A message's batch without the messages before it."""
    batch = message.batch
    meant = selection.whole(batch.frame.count) if batch.mask is None else batch.mask
    before = message.offset - batch.frame.header.base_offset
    return batch.narrowed(meant >> before << before)
