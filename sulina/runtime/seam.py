"""Interfaces through which the core meets the machine.

The core is plain ``async`` code: it may use asyncio's futures, tasks, events and queues, because
a simulated event loop runs them too. It gets everything else from the objects described here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
_T = TypeVar("_T")


class RunBlocking(Protocol):
    """Does work that takes a while, so that nobody else on the event loop waits for it."""

    async def __call__(self, work: Callable[[], _T]) -> _T: ...


async def run_inline(work: Callable[[], _T]) -> _T:
    """An ``RunBlocking`` that does it here and now."""
    return work()


class Clock(Protocol):
    """Time, as the core sees it."""

    def now(self) -> float:
        """Seconds on a clock that never goes back. Only differences have a meaning."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC. May jump; never used for decisions of safety."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        ...


class Network(Protocol):
    """Opens connections."""

    async def dial(
        self, protocol: asyncio.BufferedProtocol, host: str, port: int, *, secure: bool
    ) -> None:
        """Connect ``protocol`` to a peer. Returns after its ``connection_made`` was called.

        Raises ``Unavailable`` if the peer cannot be reached (``NobodyThere`` if the operating
        system says that nothing listens there) and ``Refused`` if the TLS handshake fails. There is
        no timeout: to give up, the caller cancels.
        """
        ...


class Randomness(Protocol):
    """The part of ``random.Random`` that the core uses, for jitter and unique names."""

    def random(self) -> float: ...

    def getrandbits(self, k: int, /) -> int: ...


@dataclass(frozen=True, slots=True)
class Runtime:
    """Clock, network and randomness: what a client needs from the machine.

    ``sulina.connect`` passes the real ones; a simulation passes its own.
    """

    clock: Clock
    network: Network
    random: Randomness

    def unique_name(self, prefix: str) -> str:
        """``prefix`` followed by 64 random bits."""
        return f"{prefix}-{self.random.getrandbits(64):016x}"


class DiskFile(Protocol):
    """One file of a :class:`Disk`, opened for reading and writing.

    Writes are issued by one caller at a time, in order. Reads may overlap with anything.
    """

    @property
    def name(self) -> str: ...

    async def write(self, position: int, buffers: Sequence[Buffer], *, sync: bool) -> None:
        """Write ``buffers`` one after the other from ``position`` on.

        With ``sync`` the data is durable (fdatasync) when this returns. Raises ``StorageFull``
        when there is no space (part of the bytes may have been written: the caller owns the
        cleaning up) and ``StorageFailed`` on any other error.
        """
        ...

    async def read(self, position: int, length: int) -> bytes:
        """Up to ``length`` bytes from ``position``; fewer only at the end of the file."""
        ...

    async def size(self) -> int:
        """The file's length in bytes."""
        ...

    async def reserve(self, length: int) -> None:
        """Make the file at least ``length`` bytes long with space that later writes can use.

        New bytes read as zero. Raises ``StorageFull`` and changes nothing if there is no space.
        """
        ...

    async def truncate(self, length: int) -> None:
        """Cut the file to ``length`` bytes, durably."""
        ...

    async def sync(self) -> None:
        """Make everything written so far durable. Raises ``StorageFailed``."""
        ...

    async def close(self) -> None:
        """Release the file. Further calls are errors."""
        ...


class Disk(Protocol):
    """A folder of flat files. Names have no separators."""

    async def open(self, name: str, *, create: bool = False) -> DiskFile:
        """Open ``name``. With ``create`` it is made when absent, and its name is durable."""
        ...

    async def list(self) -> list[str]:
        """Names of all files, sorted."""
        ...

    async def remove(self, name: str) -> None:
        """Delete ``name`` durably; nothing happens if it is absent."""
        ...

    async def replace(self, name: str, content: Buffer) -> None:
        """Write a whole file atomically and durably: readers see the old or the new content."""
        ...

    async def close(self) -> None:
        """Release what the disk holds (threads, locks)."""
        ...
