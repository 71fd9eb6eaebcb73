"""Tickets for sent records, which resolve to message ids once the broker has stored them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sulina.errors import SulinaError

OFFSET_NOT_KNOWN: Final = -1


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Identifies a stored record by its topic (or partition) and offset.

    The offset is -1 if the connection was lost after the broker stored the record and before it
    answered. The record was then sent again, recognised as a duplicate and is stored once, but the
    client does not learn its offset.
    """

    topic: str
    offset: int


class FrameOutcome:
    """The outcome of one frame, shared by all its tickets. Settled once."""

    __slots__ = ("_waiters", "base_offset", "error", "seen", "settled", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.settled = False
        self.base_offset = OFFSET_NOT_KNOWN
        self.error: SulinaError | None = None
        self.seen = False
        """Whether the error was raised to the application."""
        self._waiters: list[asyncio.Future[None]] = []

    def succeed(self, base_offset: int) -> None:
        """The broker acknowledged the frame."""
        self.base_offset = base_offset
        self._settle()

    def fail(self, error: SulinaError) -> None:
        """The frame was refused, or its outcome is unknown."""
        self.error = error
        self._settle()

    def _settle(self) -> None:
        self.settled = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        """A future for this caller only, done once this is settled. It may be cancelled."""
        waiter = asyncio.get_running_loop().create_future()
        if self.settled:
            waiter.set_result(None)
        else:
            self._waiters.append(waiter)
        return waiter

    def check(self) -> None:
        """Raise the error, if it failed."""
        if self.error is not None:
            self.seen = True
            # Many tickets raise this error: none should carry the tracebacks of the others.
            raise self.error.with_traceback(None)

    def id_of(self, index: int) -> MessageId:
        """The id of the frame's record ``index``, once settled. Raises the error."""
        self.check()
        if self.base_offset == OFFSET_NOT_KNOWN:
            return MessageId(self.topic, OFFSET_NOT_KNOWN)
        return MessageId(self.topic, self.base_offset + index)


class Ticket:
    """The pending result of ``send`` or ``send_many``. Await it for the (last) record's id.

    On a reliable topic it is done once the records are durable, on a non-reliable topic once the
    broker has received them. Awaiting it raises the broker's error if the records were refused,
    ``UnknownOutcome`` if they may or may not be stored, and the cause (usually ``Unavailable``) if
    they could not be sent within ``send_timeout``. It may be awaited any number of times, or never:
    ``Producer.flush`` waits for all records.
    """

    __slots__ = ("_earlier", "_index", "_outcome")

    def __init__(
        self, outcome: FrameOutcome, index: int, earlier: Sequence[FrameOutcome] = ()
    ) -> None:
        self._outcome = outcome
        self._index = index
        self._earlier = earlier

    def done(self) -> bool:
        """Whether awaiting it returns or raises immediately."""
        return self._outcome.settled and all(outcome.settled for outcome in self._earlier)

    def __await__(self) -> Generator[Any, None, MessageId]:
        for outcome in self._earlier:
            if not outcome.settled:
                yield from outcome.wait()
        if not self._outcome.settled:
            yield from self._outcome.wait()
        return self.result()

    def result(self) -> MessageId:
        """The id of the (last) record, once done. Raises as awaiting it does."""
        for outcome in self._earlier:
            outcome.check()
        return self._outcome.id_of(self._index)

    def when_settled(self, call: Callable[[], None]) -> None:
        """Call ``call`` once the last frame is stored or has failed."""
        self._outcome.wait().add_done_callback(lambda _: call())
