"""What a send gives back: a ticket, which becomes the record's id once the broker has it."""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sulina.errors import SulinaError

OFFSET_NOT_KNOWN: Final = -1


@dataclass(frozen=True, slots=True, order=True)
class MessageId:
    """Where a record is: its topic (of a partitioned topic, the partition) and its offset.

    The offset is -1 when the broker had stored the record before a lost connection and was sent
    it again: it is stored, once, but where is not known here.
    """

    topic: str
    offset: int


class Outcome:
    """What became of one frame; all its tickets share it. Settled once."""

    __slots__ = ("_waiters", "base_offset", "error", "seen", "settled", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.settled = False
        self.base_offset = OFFSET_NOT_KNOWN
        self.error: SulinaError | None = None
        self.seen = False
        """The error was raised to somebody."""
        self._waiters: list[asyncio.Future[None]] = []

    def succeed(self, base_offset: int) -> None:
        """The broker has the frame."""
        self.base_offset = base_offset
        self._settle()

    def fail(self, error: SulinaError) -> None:
        """The frame was refused, or what became of it can't be known."""
        self.error = error
        self._settle()

    def _settle(self) -> None:
        self.settled = True
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def wait(self) -> asyncio.Future[None]:
        """A future of the caller's own, done once this is settled: cancelling it hurts nobody."""
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
            # One error, raised by many tickets: none shall carry the traces of the others.
            raise self.error.with_traceback(None)

    def id_of(self, index: int) -> MessageId:
        """The id of the frame's record ``index``, once settled. Raises the error."""
        self.check()
        if self.base_offset == OFFSET_NOT_KNOWN:
            return MessageId(self.topic, OFFSET_NOT_KNOWN)
        return MessageId(self.topic, self.base_offset + index)


class Ticket:
    """A promise for sent records: ``await`` it for the id of the (last) record.

    On a reliable topic it is done once the records are durable, on a non-reliable one once the
    broker has taken them. Awaiting raises the error if the broker refused them, and
    ``UnknownOutcome`` if it can't be known whether they are stored. It may be awaited any number
    of times, or never: ``Producer.flush`` waits for all.
    """

    __slots__ = ("_earlier", "_index", "_outcome")

    def __init__(self, outcome: Outcome, index: int, earlier: Sequence[Outcome] = ()) -> None:
        self._outcome = outcome
        self._index = index
        self._earlier = earlier

    def done(self) -> bool:
        """Whether awaiting would return, or raise, at once."""
        return self._outcome.settled and all(outcome.settled for outcome in self._earlier)

    def __await__(self) -> Generator[Any, None, MessageId]:
        for outcome in self._earlier:
            if not outcome.settled:
                yield from outcome.wait()
            outcome.check()
        if not self._outcome.settled:
            yield from self._outcome.wait()
        return self._outcome.id_of(self._index)
