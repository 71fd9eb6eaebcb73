"""Limits the connections of a door that have not shown a valid token yet.

A connection beyond the limit replaces the oldest one that is idle: of the same address, if that
address has too many. If none is idle, the new connection is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from broker_containers.security.throttle import network_of
from sulina.runtime.seam import Clock

_IDLE_SECONDS: Final = 0.25
"""A connection that has been silent for less is not replaced: its first bytes may be on the way."""


_RESERVE: Final = 16
_MOST_RESERVE: Final = 64
_T = TypeVar("_T")


@dataclass(eq=False, slots=True)
class Connection:
    """A connection, and what it is doing."""

    network: str
    close: Callable[[], None] = field(repr=False)
    opened: float
    seen: float
    """When it was opened, or last finished a request."""
    busy: bool = False
    """Whether a request is in progress."""


class UnidentifiedConnections:
    """Those of one door, oldest first. Never waits."""

    def __init__(self, clock: Clock, total: int, per_address: int) -> None:
        self._clock = clock
        self._total = total
        self._per_address = per_address
        self._all: dict[Connection, None] = {}

    def admit(self, connection: Connection) -> bool:
        """Add a connection; false if it is refused.

        Its ``close`` is called if another one replaces it. Call ``remove`` once it has shown a
        token or is closed.
        """
        now = self._clock.now()
        same = [each for each in self._all if each.network == connection.network]
        if len(same) >= self._per_address:
            replaced = oldest_idle(same, now)
        elif len(self._all) >= self._total:
            replaced = oldest_idle(self._all, now)
        else:
            self._all[connection] = None
            return True
        if replaced is None:
            return False
        self.remove(replaced)
        replaced.close()
        self._all[connection] = None
        return True

    def remove(self, connection: Connection) -> None:
        """It is identified or closed; further calls change nothing."""
        self._all.pop(connection, None)

    def close_opened_before(self, moment: float) -> None:
        """Close the connections that have taken too long."""
        for each in [one for one in self._all if one.opened < moment]:
            self.remove(each)
            each.close()


def new_connection(address: str, close: Callable[[], None], now: float) -> Connection:
    """A connection that has just been opened."""
    return Connection(network_of(address), close, now, now)


def oldest_idle(candidates: Iterable[Connection], now: float) -> Connection | None:
    """The one that has been idle for longest; None if all are in use."""
    idle = (each for each in candidates if not each.busy and now - each.seen >= _IDLE_SECONDS)
    return min(idle, key=lambda each: each.seen, default=None)


def gives_way(reserve: Mapping[_T, float], busy: Callable[[_T], bool], now: float) -> _T | None:
    """Which connection of a door's reserve for health checks is closed for newer ones; None if
    there is room.

    ``reserve`` has when each was opened, the oldest first. One that is ``busy``, or whose first
    bytes may be on the way, stays as long as there are not many of those.
    """
    if len(reserve) <= _RESERVE:
        return None
    for each, opened in reserve.items():
        if now - opened > _IDLE_SECONDS and not busy(each):
            return each
    return next(iter(reserve)) if len(reserve) > _MOST_RESERVE else None
