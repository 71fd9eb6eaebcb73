"""What stands before a server and spoils some of what passes, whatever the protocol is.

A test says what becomes of the next requests, or of those that it picks; what it says nothing of
passes unharmed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum, auto


class Fault(Enum):
    """What becomes of a request."""

    BUSY = auto()
    """It is answered with a request to come back later, and never arrives."""
    CUT = auto()
    """The connection ends before it arrives."""
    LOST = auto()
    """It arrives and is done; the connection ends before the answer."""
    TORN = auto()
    """It arrives and is done; the connection ends within the answer's body."""
    SILENT = auto()
    """It never arrives, and nothing is answered for as long as the client waits."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came."""

    method: str
    path: str
    """With its query; of Redis, the arguments."""


@dataclass(slots=True)
class FaultyProxy:
    """Forwards to ``to_port``. Use it in ``async with``; whoever is to be harmed dials ``port``."""

    to_port: int
    choose: Callable[[Seen], Fault | None] = lambda seen: None
    """Decides over each request."""
    meanwhile: Callable[[Seen], Awaitable[None]] | None = None
    """Called with each request before anything becomes of it."""
    seen: list[Seen] = field(default_factory=list)
    """All that came."""
    done: list[Seen] = field(default_factory=list)
    """All that were answered by the server behind."""
    port: int = 0

    def heal(self) -> None:
        """From now on everything passes."""
        self.choose = lambda seen: None
        self.meanwhile = None

    def spoil(self, *faults: Fault | None) -> None:
        """The next requests get these, in order; those after them pass."""
        left: Iterator[Fault | None] = iter(faults)
        self.choose = lambda seen: next(left, None)

    async def fault_of(self, seen: Seen) -> Fault | None:
        """What becomes of a request that came."""
        self.seen.append(seen)
        if self.meanwhile is not None:
            await self.meanwhile(seen)
        return self.choose(seen)
