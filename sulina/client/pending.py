"""The frames that a broker has not acknowledged yet, in the order of their sequences. Pure.

A frame is kept as the bytes that were first sent, so a resend is the same frame and the broker
can tell that it is. Numbers count the frames sent over one producer handle, from zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sulina.client.tickets import Outcome
from sulina.errors import ProtocolError, SulinaError, UnknownOutcome


@dataclass(slots=True)
class PendingFrame:
    """One frame on its way."""

    frame: bytes
    cost: int
    since: float
    """When it was packed, for the send timeout."""
    outcome: Outcome
    in_doubt: bool = False
    """It was sent, and nothing is known of what became of it."""


class Pending:
    """All frames of one topic that are on their way.

    ``settled`` is called with the cost of each that no longer is, ``failed`` with each failure.
    """

    def __init__(
        self,
        settled: Callable[[int], None],
        failed: Callable[[Outcome], None],
    ) -> None:
        self._settled = settled
        self._failed = failed
        self._frames: deque[PendingFrame] = deque()
        self._first = 0  # number of the frame at the head of the queue
        self._sent = 0  # frames from the head on that were sent over the present handle

    def __len__(self) -> int:
        return len(self._frames)

    def outcomes(self) -> list[Outcome]:
        """What to wait for until all that is pending now is settled."""
        return [entry.outcome for entry in self._frames]

    def add(self, entry: PendingFrame) -> None:
        """One more frame, behind all others."""
        self._frames.append(entry)

    def to_send(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of each frame that waits to be sent. Taking one marks it as sent."""
        while self._sent < len(self._frames):
            entry = self._frames[self._sent]
            entry.in_doubt = True
            number = self._first + self._sent
            self._sent += 1
            yield number, entry.frame

    def restart(self, *, resend_in_doubt: bool) -> None:
        """Everything is to be sent again, over a new handle.

        Without ``resend_in_doubt`` frames of unknown fate fail instead: where a topic promises
        at most once, a repeat would be the worse outcome.
        """
        self._forget_settled()
        if not resend_in_doubt:
            for entry in self._frames:
                if entry.in_doubt:
                    self._fail(entry, UnknownOutcome("the connection was lost while sending"))
        self._frames = deque(entry for entry in self._frames if not entry.outcome.settled)
        self._first = self._sent = 0

    def published(self, first_number: int, base_offsets: Sequence[int]) -> None:
        """The broker has these frames. Raises ``ProtocolError`` for frames that were not sent."""
        start = first_number - self._first
        if start < 0 or start + len(base_offsets) > self._sent:
            raise ProtocolError("the broker acknowledged a frame that it was not sent")
        for index, base_offset in enumerate(base_offsets, start):
            entry = self._frames[index]
            if not entry.outcome.settled:
                entry.outcome.succeed(base_offset)
                self._settled(entry.cost)
        self._forget_settled()

    def refused(self, number: int, error: SulinaError) -> None:
        """This one frame is not wanted; others are not concerned."""
        entry = self._at(number)
        if not entry.outcome.settled:
            self._fail(entry, error)
        self._forget_settled()

    def interrupted(self, number: int) -> None:
        """The broker took neither this frame nor, over this handle, any later one."""
        self._at(number)
        for index in range(number - self._first, self._sent):
            self._frames[index].in_doubt = False

    def expire(self, packed_before: float, why: SulinaError) -> bool:
        """Fail what is pending for too long: with ``why`` if it surely was not taken.

        Returns whether there was any. If so, answers for the present handle must be ignored from
        here to the next :meth:`restart`, because its numbers no longer fit.
        """
        expired = False
        while self._frames and self._frames[0].since < packed_before:
            entry = self._frames.popleft()
            if not entry.outcome.settled:
                expired = True
                self._fail(entry, _in_doubt(entry, why))
        if expired:
            self._first = self._sent = 0
        return expired

    def fail_all(self, error: SulinaError) -> None:
        """Nothing of this will be sent any more."""
        for entry in self._frames:
            if not entry.outcome.settled:
                self._fail(entry, _in_doubt(entry, error))
        self._frames.clear()
        self._first = self._sent = 0

    def _at(self, number: int) -> PendingFrame:
        index = number - self._first
        if not 0 <= index < self._sent:
            raise ProtocolError("the broker answered for a frame that it was not sent")
        return self._frames[index]

    def _fail(self, entry: PendingFrame, error: SulinaError) -> None:
        entry.outcome.fail(error)
        self._settled(entry.cost)
        self._failed(entry.outcome)

    def _forget_settled(self) -> None:
        frames = self._frames
        while self._sent and frames[0].outcome.settled:
            frames.popleft()
            self._first += 1
            self._sent -= 1


def _in_doubt(entry: PendingFrame, error: SulinaError) -> SulinaError:
    if not entry.in_doubt:
        return error
    return UnknownOutcome(f"not acknowledged, so it may or may not be stored: {error}")
