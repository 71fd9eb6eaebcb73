"""Hands what has arrived to the application: message by message, or batch by batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from sulina.client.message import Batch, Message
from sulina.client.queue import Delivery, Inbox
from sulina.errors import Closed, SulinaError
from sulina.wire import selection

if TYPE_CHECKING:
    from sulina.client.feed import Feed


class Receiver:
    """Any number of tasks may wait for messages. Nothing is lost when one of them is cancelled:
    a message is taken in the moment in which it is returned."""

    def __init__(self) -> None:
        self.inbox = Inbox()
        self.messages: Iterator[Message] = iter(())
        """The rest of the batch that is being handed out; the fast way to the next message."""
        self._current: Batch | None = None
        self._end: SulinaError | None = Closed(
            "the consumer is not open yet: use it in `async with`"
        )

    async def next_message(self) -> Message:
        """Waits. Raises the error that has put an end to this, once nothing is left."""
        while True:
            for message in self.messages:
                return message
            batch = self._poll()
            if batch is None:
                await self.inbox.news()
            else:
                self._current, self.messages = batch, iter(batch)

    async def next_batch(self) -> Batch:
        """As :meth:`next_message`. If messages of a batch were taken singly, its rest is first."""
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
            batch = delivery.feed.unpack(delivery)
            self.inbox.remove_first()
            if batch:
                return batch
        if self._end is not None:
            raise self._end.with_traceback(None)
        return None

    def drop(self, feed: Feed) -> list[Delivery]:
        """What came from ``feed`` and was not handed out is void. The deliveries not begun."""
        if self._current is not None and self._current.feed is feed:
            self.messages = iter(())
        return self.inbox.drop(feed)

    def fail(self, error: SulinaError) -> None:
        """Nothing more will come."""
        if self._end is None:
            self._end = error
        self.inbox.wake()

    def begin(self) -> None:
        """From now on messages may come."""
        self._end = None

    def end(self, error: SulinaError) -> None:
        """Forget what has arrived; ``error`` is for who asks for more."""
        self.inbox.clear()
        self.messages = iter(())
        self._end = error
        self.inbox.wake()


def _from(message: Message) -> Batch:
    """The batch of a message without what came before it."""
    batch = message.batch
    meant = selection.whole(batch.frame.count) if batch.mask is None else batch.mask
    before = message.offset - batch.frame.header.base_offset
    return batch.narrowed(meant >> before << before)
