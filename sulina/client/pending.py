"""The frames that a broker has not acknowledged yet, in sequence order. Pure.

A frame is kept as the bytes that were first sent, so that the broker recognises a resend. Numbers
count the frames sent over one producer handle, from zero.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from sulina.client.tickets import FrameOutcome
from sulina.errors import ProtocolError, SulinaError, UnknownOutcome


@dataclass(slots=True)
class PendingFrame:
    """One unacknowledged frame."""

    frame: bytes
    cost: int
    since: float
    """When it was packed, for the send timeout."""
    outcome: FrameOutcome
    in_doubt: bool = False
    """It was sent, and its outcome is not known."""


class Pending:
    """All unacknowledged frames of one topic or partition.

    ``settled`` is called with the cost of each frame that is settled, ``failed`` with each failure.
    """

    def __init__(
        self,
        settled: Callable[[int], None],
        failed: Callable[[FrameOutcome], None],
    ) -> None:
        self._settled = settled
        self._failed = failed
        self._frames: deque[PendingFrame] = deque()
        self._first = 0  # number of the frame at the head of the queue
        self._sent = 0  # frames from the head on that were sent over the current handle

    def __len__(self) -> int:
        return len(self._frames)

    def outcomes(self) -> list[FrameOutcome]:
        """The outcomes of all frames that are pending now."""
        return [entry.outcome for entry in self._frames]

    def add(self, entry: PendingFrame) -> None:
        """Add a frame at the end."""
        self._frames.append(entry)

    def to_send(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of each frame that was not sent yet. Taking one marks it as sent."""
        while self._sent < len(self._frames):
            entry = self._frames[self._sent]
            entry.in_doubt = True
            number = self._first + self._sent
            self._sent += 1
            yield number, entry.frame

    def restart(self, *, resend_in_doubt: bool) -> None:
        """Send everything again, over a new handle.

        Without ``resend_in_doubt``, frames of unknown outcome fail instead: a topic that promises
        at-most-once delivery must not store them twice.
        """
        self._forget_settled()
        if not resend_in_doubt:
            for entry in self._frames:
                if entry.in_doubt:
                    self._fail(
                        entry,
                        UnknownOutcome(
                            "the connection was lost while sending: the frame may or may not have "
                            "been received"
                        ),
                    )
        self._frames = deque(entry for entry in self._frames if not entry.outcome.settled)
        self._first = self._sent = 0

    def published(self, first_number: int, base_offsets: Sequence[int]) -> None:
        """The broker stored these frames. Raises ``ProtocolError`` for ones that were not sent."""
        start = first_number - self._first
        if start < 0 or start + len(base_offsets) > self._sent:
            raise ProtocolError("the broker acknowledged a frame that was never sent")
        for index, base_offset in enumerate(base_offsets, start):
            entry = self._frames[index]
            if not entry.outcome.settled:
                entry.outcome.succeed(base_offset)
                self._settled(entry.cost)
        self._forget_settled()

    def refused(self, number: int, error: SulinaError) -> None:
        """The broker refused this frame; the others are not affected."""
        entry = self._at(number)
        if not entry.outcome.settled:
            self._fail(entry, error)
        self._forget_settled()

    def interrupted(self, number: int) -> None:
        """The broker accepted neither this frame nor any later one over this handle."""
        self._at(number)
        for index in range(number - self._first, self._sent):
            self._frames[index].in_doubt = False

    def expire(self, packed_before: float, why: SulinaError) -> bool:
        """Fail frames packed before this time, with ``why`` if they were certainly not stored.

        Returns whether there were any. If so, answers for the current handle must be ignored until
        the next :meth:`restart`, because its numbers no longer match.
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
        """Fail everything: nothing more will be sent."""
        for entry in self._frames:
            if not entry.outcome.settled:
                self._fail(entry, _in_doubt(entry, error))
        self._frames.clear()
        self._first = self._sent = 0

    def _at(self, number: int) -> PendingFrame:
        index = number - self._first
        if not 0 <= index < self._sent:
            raise ProtocolError("the broker acknowledged a frame that was never sent")
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
    return UnknownOutcome(
        f"the frame was not acknowledged, so it may or may not be stored: {error}"
    )
