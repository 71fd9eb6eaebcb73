"""How far a watch has got: what it lets through once, and where it goes on after a break.

All changes of a transaction share a revision. A large batch comes in fragments, which may end in
the middle of a revision; a watch that breaks there asks for that revision again and leaves out the
keys it had. Anything older is never let through.
"""

from __future__ import annotations

from collections.abc import Iterable

from sulina.metadata.store import Event


class Position:
    """``next`` is the revision to go on from."""

    __slots__ = ("_had", "next")

    def __init__(self, from_revision: int) -> None:
        self.next = from_revision
        self._had: set[str] = set()
        """Keys of revision ``next`` that were let through: it may have more."""

    def admit(self, events: Iterable[Event], *, more: bool) -> list[Event]:
        """The events that are new, in order; ``more`` if the batch goes on in another fragment.

        A message without events, like the one that opens a stream, says nothing.
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
