"""How far a watch has got: which events are new, and where to resume after a broken connection.

All changes of a transaction share one revision. A large batch arrives in fragments, which may end
in the middle of a revision; a watch that breaks there asks for that revision again and skips the
keys that it already has.
"""

from __future__ import annotations

from collections.abc import Iterable

from sulina.metadata.store import Event


class WatchProgress:
    """``next`` is the revision to resume from."""

    __slots__ = ("_had", "next")

    def __init__(self, from_revision: int) -> None:
        self.next = from_revision
        self._had: set[str] = set()
        """Keys of revision ``next`` that were returned already; more of that revision may come."""

    def admit(self, events: Iterable[Event], *, more: bool) -> list[Event]:
        """The events that are new, in order; ``more`` if another fragment of the batch follows.

        A message without events, such as the one that opens a stream, changes nothing.
        """
        fresh: list[Event] = []
        last = 0
        for event in events:
            revision = last = event.mod_revision
            if revision < self.next or (revision == self.next and event.key in self._had):
                continue
            if revision > self.next:
                self.next, self._had = revision, set()
            self._had.add(event.key)
            fresh.append(event)
        if not more and last >= self.next:
            self.next, self._had = last + 1, set()
        return fresh
