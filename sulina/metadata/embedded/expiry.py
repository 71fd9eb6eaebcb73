"""The time of the leases: a task for each sleeps until it runs out, then has it revoked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sulina.errors import Overloaded, StorageFull, SulinaError
from sulina.runtime.seam import Clock

_RETRY_SECONDS = 1.0


class Expiry:
    """Knows when each lease runs out. Times are kept in memory only: a restart renews them all."""

    def __init__(self, clock: Clock, revoke: Callable[[int], Awaitable[None]]) -> None:
        self._clock = clock
        self._revoke = revoke
        self._ttls: dict[int, int] = {}
        self._deadlines: dict[int, float] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, lease: int, ttl: int) -> None:
        """Let a lease's time run from now on."""
        self._ttls[lease] = ttl
        self._deadlines[lease] = self._clock.now() + ttl
        self._tasks[lease] = asyncio.create_task(self._run(lease), name=f"metadata-lease-{lease}")

    def renew(self, lease: int) -> bool:
        """Start its time again; False if it has run out or was never known."""
        deadline = self._deadlines.get(lease)
        if deadline is None or deadline <= self._clock.now():
            return False
        self._deadlines[lease] = self._clock.now() + self._ttls[lease]
        return True

    def stop(self, lease: int) -> None:
        """Forget a lease that was revoked."""
        del self._ttls[lease]
        del self._deadlines[lease]
        self._tasks.pop(lease).cancel()

    async def close(self) -> None:
        """Stop the time of every lease."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, lease: int) -> None:
        while (left := self._deadlines[lease] - self._clock.now()) > 0:
            await self._clock.sleep(left)
        while True:
            try:
                await self._revoke(lease)
            except (StorageFull, Overloaded):
                await self._clock.sleep(_RETRY_SECONDS)
            except SulinaError:
                return  # the store takes no changes any more; a restart gives the lease new time
            else:
                return
