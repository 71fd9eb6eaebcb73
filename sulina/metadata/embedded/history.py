"""Recent changes, and the watches that read them.

All watches share one bounded history, and each keeps only its position in it, so that a slow watch
costs no memory. When the history has moved past its position, it raises ``Compacted``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Self

from sulina.errors import Closed, Refused
from sulina.metadata.embedded.state import FIRST_REVISION, Change, KeyRemoved, KeyStored
from sulina.metadata.store import Compacted, Event, EventKind

MAX_EVENTS = 10_000
MAX_BYTES = 64 * 1024 * 1024
_EVENT_BYTES = 300
"""The approximate memory of an event beside its key and value."""


def event_of(change: Change) -> Event | None:
    """The event that a watch sees for a change; None for a lease."""
    match change:
        case KeyStored(item):
            return Event(EventKind.PUT, item.key, item.value, item.mod_revision)
        case KeyRemoved(key, mod_revision):
            return Event(EventKind.DELETE, key, b"", mod_revision)
        case _:
            return None


def _cost(event: Event) -> int:
    return len(event.key) + len(event.value) + _EVENT_BYTES


class ChangeHistory:
    """The latest events, in whole revisions, numbered from 0 without gaps."""

    def __init__(
        self, revision: int, *, max_events: int = MAX_EVENTS, max_bytes: int = MAX_BYTES
    ) -> None:
        """An empty history of what happens after ``revision``."""
        self.compacted = revision if revision == FIRST_REVISION else revision + 1
        """Every event of this revision and later ones is held."""
        self.closed = False
        self._events: deque[Event] = deque()
        self._first = 0
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._parked: set[HistoryWatch] = set()

    @property
    def end(self) -> int:
        """The number that the next event will have."""
        return self._first + len(self._events)

    def record(self, changes: Iterable[Change]) -> None:
        """Add the events of ``changes``, in whole revisions, and wake waiting watches."""
        start = self.end
        fresh = [event for change in changes if (event := event_of(change)) is not None]
        self._events.extend(fresh)
        self._bytes += sum(map(_cost, fresh))
        for watch in list(self._parked):
            watch.offer(start, fresh)
        while len(self._events) > self._max_events or self._bytes > self._max_bytes:
            self._forget(self._events[0].mod_revision + 1)

    def compact(self, revision: int, current: int) -> None:
        """Discard events before ``revision``, which must not exceed ``current``."""
        if revision > current:
            raise Refused(f"revision {revision} does not exist yet: compact at {current} or below")
        self._forget(revision)

    def close(self) -> None:
        """End every watch with ``Closed``."""
        self.closed = True
        for watch in list(self._parked):
            watch.wake()

    def seek(self, revision: int) -> int:
        """The number of the first event of ``revision`` or later."""
        if revision < self.compacted:
            raise Compacted(self.compacted)
        low, high = self._first, self.end
        while low < high:
            middle = (low + high) // 2
            if self._events[middle - self._first].mod_revision < revision:
                low = middle + 1
            else:
                high = middle
        return low

    def at(self, number: int) -> Event:
        """Event ``number``, which is below ``end``. Raises ``Compacted`` if it was discarded."""
        if number < self._first:
            raise Compacted(self.compacted)
        return self._events[number - self._first]

    def park(self, watch: HistoryWatch) -> None:
        """Offer new events to ``watch``, which has seen all others."""
        self._parked.add(watch)

    def unpark(self, watch: HistoryWatch) -> None:
        """Stop offering events to ``watch``; does nothing if it was not parked."""
        self._parked.discard(watch)

    def _forget(self, revision: int) -> None:
        while self._events and self._events[0].mod_revision < revision:
            self._bytes -= _cost(self._events.popleft())
            self._first += 1
        self.compacted = max(self.compacted, revision)


class HistoryWatch:
    """A position in the history and a prefix. See ``sulina.metadata.store.Watch``."""

    def __init__(self, history: ChangeHistory, prefix: str, from_revision: int) -> None:
        self._history = history
        self._prefix = prefix
        self._from_revision = from_revision
        self._next: int | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        history = self._history
        while not self._closed:
            if history.closed:
                raise Closed("the metadata store was closed")
            if self._next is None:
                self._next = history.seek(self._from_revision)
            if self._next == history.end:
                await self._wait()
                continue
            event = history.at(self._next)
            self._next += 1
            # A watch may start at a future revision, so events can be older than requested.
            if event.key.startswith(self._prefix) and event.mod_revision >= self._from_revision:
                return event
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop; a waiting iteration ends."""
        self._closed = True
        self.wake()

    def offer(self, start: int, fresh: list[Event]) -> None:
        """While parked: move to the first matching event and skip the others.

        So an idle watch never falls behind, however much happens under other prefixes.
        """
        for number, event in enumerate(fresh, start):
            if event.key.startswith(self._prefix):
                self._next = number
                self._history.unpark(self)
                self.wake()
                return
        self._next = start + len(fresh)

    def wake(self) -> None:
        """End the wait, if there is one."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        self._history.park(self)
        try:
            await self._waiter
        finally:
            self._history.unpark(self)
            self._waiter = None
