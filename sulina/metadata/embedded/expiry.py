"""Revokes leases when they expire, with one sleeping task per lease."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from sulina.errors import Overloaded, StorageFull, SulinaError
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_RETRY_SECONDS = 1.0


class Expiry:
    """Tracks when each lease expires, in memory only: a restart renews all of them."""

    def __init__(self, clock: Clock, revoke: Callable[[int], Awaitable[None]]) -> None:
        self._clock = clock
        self._revoke = revoke
        self._ttls: dict[int, int] = {}
        self._deadlines: dict[int, float] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def start(self, lease: int, ttl: int) -> None:
        """Start a lease's time to live."""
        self._ttls[lease] = ttl
        self._deadlines[lease] = self._clock.now() + ttl
        self._tasks[lease] = asyncio.create_task(self._run(lease), name=f"metadata-lease-{lease}")

    def renew(self, lease: int) -> bool:
        """Restart a lease's time to live; False if it has expired or is unknown."""
        deadline = self._deadlines.get(lease)
        if deadline is None or deadline <= self._clock.now():
            return False
        self._deadlines[lease] = self._clock.now() + self._ttls[lease]
        return True

    def stop(self, lease: int) -> None:
        """Remove a revoked lease."""
        del self._ttls[lease]
        del self._deadlines[lease]
        self._tasks.pop(lease).cancel()

    async def close(self) -> None:
        """Stop all tasks."""
        await stop_tasks(*self._tasks.values())

    async def _run(self, lease: int) -> None:
        while (left := self._deadlines[lease] - self._clock.now()) > 0:
            await self._clock.sleep(left)
        while True:
            try:
                await self._revoke(lease)
            except (StorageFull, Overloaded):
                await self._clock.sleep(_RETRY_SECONDS)
            except SulinaError:
                return  # the store accepts no more changes; a restart renews the lease
            else:
                return
