"""The keys and leases that readers see, and the changes between states.

Changes are results ("this key now has this value"), so applying them needs no rules, and replaying
a log of changes gives the same state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from sulina.metadata.store import KeyValue


@dataclass(frozen=True, slots=True)
class KeyStored:
    """A key was created or changed to ``item``."""

    item: KeyValue


@dataclass(frozen=True, slots=True)
class KeyRemoved:
    """A key was deleted by ``mod_revision``."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class LeaseGranted:
    """A lease was granted, for ``ttl`` seconds after each renewal."""

    lease: int
    ttl: int


@dataclass(frozen=True, slots=True)
class LeaseRevoked:
    """A lease ended; the deletions of its keys are separate changes."""

    lease: int


Change = KeyStored | KeyRemoved | LeaseGranted | LeaseRevoked

FIRST_REVISION = 1
"""The revision of an empty store."""


class StoreState:
    """The store at one revision. Only one caller changes it, without awaiting in between."""

    def __init__(self, revision: int = FIRST_REVISION, last_lease: int = 0) -> None:
        self.revision = revision
        self.last_lease = last_lease
        """The highest lease id ever granted: none is reused."""
        self.leases: dict[int, int] = {}
        """Time to live, by lease id."""
        self._items: dict[str, KeyValue] = {}
        self._order: list[str] = []
        self._bound: dict[int, set[str]] = {}

    def get(self, key: str) -> KeyValue | None:
        """The key, if it exists."""
        return self._items.get(key)

    def scan(self, prefix: str, after: str | None = None) -> Iterator[KeyValue]:
        """The keys that start with ``prefix``, in order, after ``after``. Consume it at once."""
        order = self._order
        start = bisect_left(order, prefix)
        if after is not None:
            start = max(start, bisect_right(order, after))
        for position in range(start, len(order)):
            if not order[position].startswith(prefix):
                return
            yield self._items[order[position]]

    def bound_to(self, lease: int) -> Iterable[str]:
        """The keys bound to ``lease``."""
        return self._bound.get(lease, ())

    def __len__(self) -> int:
        return len(self._items)

    def apply(self, change: Change) -> None:
        """Make ``change`` visible."""
        match change:
            case KeyStored(item):
                self._unbind(item.key)
                if item.key not in self._items:
                    insort(self._order, item.key)
                self._items[item.key] = item
                if item.lease:
                    self._bound.setdefault(item.lease, set()).add(item.key)
                self.revision = max(self.revision, item.mod_revision)
            case KeyRemoved(key, mod_revision):
                self._unbind(key)
                del self._items[key]
                del self._order[bisect_left(self._order, key)]
                self.revision = max(self.revision, mod_revision)
            case LeaseGranted(lease, ttl):
                self.leases[lease] = ttl
                self.last_lease = max(self.last_lease, lease)
            case LeaseRevoked(lease):
                del self.leases[lease]

    def _unbind(self, key: str) -> None:
        previous = self._items.get(key)
        if previous is None or not previous.lease:
            return
        keys = self._bound[previous.lease]
        keys.discard(key)
        if not keys:
            del self._bound[previous.lease]
