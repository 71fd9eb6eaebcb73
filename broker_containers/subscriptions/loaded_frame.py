"""One loaded frame of a subscription, with the state of each of its records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from broker_containers.subscriptions.expiry import ENDLESS, Lifetime
from sulina.wire import selection


@dataclass(slots=True, eq=False)
class Flight:
    """A part of a frame that was sent to a consumer and is not acknowledged yet."""

    consumer: int
    attempt: int
    mask: int
    mark: int
    """The consumer's count of records sent, including this flight."""
    since: float
    taken: bool = False
    """The application received it, so its ack timeout runs."""


@dataclass(slots=True, eq=False)
class Waiting:
    """A part of a frame that waits for redelivery."""

    due: float
    attempt: int
    mask: int
    latest: float
    """Latest time that ``due`` may be moved to, to combine it with other records."""


_TOGETHER = 64
"""Redelivery may be late by this fraction of the delay, to combine records."""


def part_of(base: int, count: int, first: int, last: int, mask: int | None) -> int:
    """The selection of a frame's records with offsets from ``first`` to ``last``.

    ``mask``, whose lowest bit is ``first``, narrows it.
    """
    part = selection.span(max(first - base, 0), min(last - base, count - 1))
    if mask is not None and part:  # otherwise a distant `first` would shift by its distance
        shift = first - base
        part &= mask << shift if shift >= 0 else mask >> -shift
    return part


@dataclass(slots=True, eq=False)
class LoadedFrame:
    """One loaded frame and the state of its records."""

    base: int
    count: int
    size: int
    slots: bytes | int
    """Key slot of each record, or one slot for all."""
    keys: list[str] | None = None
    """Keys as text, loaded only for key filters."""
    done: int = 0
    todo: dict[int, int] = field(default_factory=dict)
    """Attempt number -> records whose next delivery has that number."""
    flights: list[Flight] = field(default_factory=list)
    waiting: list[Waiting] = field(default_factory=list)
    dead: int = 0
    shares: dict[int, int] = field(default_factory=dict)
    """KeyShared: member -> its records, for the assignment ``shares_of``."""
    shares_of: int = -1
    timed: bool = False
    """The frame has a delivery time: later frames may have been delivered before it."""
    life: Lifetime = ENDLESS

    @property
    def undone(self) -> int:
        return selection.whole(self.count) & ~self.done

    def sent_until(self, consumer: int, mark: int) -> int:
        """Records that a consumer has in flight and was sent up to a mark."""
        sent = 0
        for flight in self.flights:
            if flight.consumer == consumer and flight.mark <= mark:
                sent |= flight.mask
        return sent

    def mark_of(self, consumer: int, offset: int) -> int:
        """The mark of the flight with a record at a consumer; 0 if there is none."""
        marks = (
            flight.mark
            for flight in self.flights
            if flight.consumer == consumer and flight.mask >> (offset - self.base) & 1
        )
        return next(marks, 0)

    def part(self, first: int, last: int, mask: int | None) -> int:
        """The selection of this frame's records; see :func:`part_of`."""
        return part_of(self.base, self.count, first, last, mask)

    def unfinished(self) -> Iterator[tuple[int, int]]:
        """Attempt number and records of everything that is not done or dead."""
        yield from self.todo.items()
        yield from ((flight.attempt, flight.mask) for flight in self.flights)
        yield from ((waiting.attempt, waiting.mask) for waiting in self.waiting)

    def make_ready(self, attempt: int, mask: int) -> None:
        if mask:
            self.todo[attempt] = self.todo.get(attempt, 0) | mask

    def take(self, attempt: int, mask: int) -> None:
        """Remove ``mask`` from what is to do."""
        rest = self.todo[attempt] & ~mask
        if rest:
            self.todo[attempt] = rest
        else:
            del self.todo[attempt]

    def wait(self, attempt: int, mask: int, due: float, now: float) -> None:
        """Let ``mask`` wait until ``due``. Due times that are close are combined into the latest.

        Otherwise a frame that is nacked record by record would need one mask per record.
        """
        slack = (due - now) / _TOGETHER
        for waiting in self.waiting:
            together = max(due, waiting.due)
            if waiting.attempt == attempt and together <= min(waiting.latest, due + slack):
                waiting.due = together
                waiting.mask |= mask
                return
        self.waiting.append(Waiting(due, attempt, mask, due + slack))

    def settle(self, mask: int) -> int:
        """Mark records as done in any state; returns those that were not done before."""
        fresh = mask & self.undone
        if fresh:
            self.done |= fresh
            self.dead &= ~fresh
            self._withdraw(fresh)
        return fresh

    def bury(self, mask: int) -> int:
        """Mark records as dead in any state but done; returns those that were not dead before."""
        fresh = mask & self.undone & ~self.dead
        if fresh:
            self.dead |= fresh
            self._withdraw(fresh)
        return fresh

    def _withdraw(self, mask: int) -> None:
        """Remove records from what is to do, in flight and waiting."""
        self.todo = {n: m & ~mask for n, m in self.todo.items() if m & ~mask}
        for flight in self.flights:
            flight.mask &= ~mask
        self.flights = [flight for flight in self.flights if flight.mask]
        for waiting in self.waiting:
            waiting.mask &= ~mask
        self.waiting = [waiting for waiting in self.waiting if waiting.mask]

    @property
    def untaken(self) -> int:
        """Records that may be delivered, now or later: neither in flight, nor dead, nor done."""
        found = 0
        for mask in self.todo.values():
            found |= mask
        for waiting in self.waiting:
            found |= waiting.mask
        return found

    def settle_all(self) -> int:
        """Mark all records as done; returns how many were not done before."""
        fresh = self.count - self.done.bit_count()
        self.done = selection.whole(self.count)
        self.dead = 0
        self.todo = {}
        for flight in self.flights:
            flight.mask = 0  # selectors may remember flights
        self.flights = []
        self.waiting = []
        return fresh
