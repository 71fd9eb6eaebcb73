"""The interfaces through which the core uses the machine.

The core is plain ``async`` code. It may use asyncio's futures, tasks, events, queues and the event
loop's ``call_later``, because a simulated event loop runs them too. Timeouts go through
``deadline.within``; everything else comes from the objects described here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

Buffer = bytes | bytearray | memoryview
_T = TypeVar("_T")


class RunBlocking(Protocol):
    """Runs work that takes long without blocking the event loop."""

    async def __call__(self, work: Callable[[], _T]) -> _T: ...


async def run_inline(work: Callable[[], _T]) -> _T:
    """A ``RunBlocking`` that runs the work immediately, on the event loop."""
    return work()


class Clock(Protocol):
    """Monotonic time, wall-clock time and sleeping."""

    def now(self) -> float:
        """Seconds on a clock that never goes back. Only differences are meaningful."""
        ...

    def wall_us(self) -> int:
        """Microseconds since 1970-01-01 UTC. May jump; never decides about safety."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Suspend the calling task."""
        ...


class Network(Protocol):
    """Opens connections."""

    async def dial(
        self,
        protocol: asyncio.BufferedProtocol,
        host: str,
        port: int,
        *,
        secure: bool,
        name: str = "",
    ) -> None:
        """Connect ``protocol`` to a peer. Returns after its ``connection_made`` was called.

        Its certificate must be for ``name``, or for ``host`` if that is empty.
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
        """Write ``buffers`` consecutively, starting at ``position``.

        With ``sync`` the data is durable (fdatasync) when this returns. Raises ``StorageFull``
        when there is no space (part of the bytes may have been written, which the caller cleans
        up) and ``StorageFailed`` on any other error.
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

    async def prewrite(self, position: int, length: int) -> None:
        """Write zeros, durably, so that later writes there sync without a change of metadata.

        Does not delay writes to other files. Nothing else may write to this file meanwhile. Raises
        ``StorageFull`` (part of the zeros may have been written) and ``StorageFailed``.
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
        """Open ``name``. With ``create``, an absent file is created, and its name is durable."""
        ...

    async def list(self) -> list[str]:
        """Names of all files, sorted."""
        ...

    async def remove(self, name: str) -> None:
        """Delete ``name`` durably; does nothing if it is absent."""
        ...

    async def replace(self, name: str, content: Buffer) -> None:
        """Write a whole file atomically and durably: readers see the old or the new content."""
        ...

    async def close(self) -> None:
        """Release threads and locks."""
        ...
