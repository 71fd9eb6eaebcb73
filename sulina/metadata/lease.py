"""A lease on the holder's side, which considers it lost before the store does.

The holder counts the time to live from when it *sent* the last confirmed renewal, and stops a
little early, so that a late, lost or slow answer cannot make it rely on a lease that the store has
already expired. A lease is still only a hint: a process that was paused does not notice it, so
whatever a lease protects must be fenced as well.
"""

from __future__ import annotations

from typing import Protocol

from sulina.errors import Retriable, UnknownOutcome
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

LOCAL_SHARE = 0.9
"""The fraction of its time to live for which the holder relies on an unrenewed lease."""
RENEWALS_PER_TTL = 4


class LeaseKeeper(Protocol):
    """The part of a store that renews and revokes leases."""

    async def renew_lease(self, lease: int) -> bool:
        """Restart the lease's time to live; False if it no longer exists."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End the lease and delete its keys in one revision; does nothing if it is gone."""
        ...


class Lease:
    """A lease that this process holds. Once ``alive()`` is False it stays False."""

    __slots__ = ("_clock", "_end", "_keeper", "id", "ttl")

    def __init__(self, id: int, ttl: int, keeper: LeaseKeeper, clock: Clock, sent: float) -> None:
        """A lease granted with ``ttl`` seconds, by a request that was sent at ``sent``."""
        self.id = id
        self.ttl = ttl
        self._keeper = keeper
        self._clock = clock
        self._end = sent + ttl * LOCAL_SHARE

    def alive(self) -> bool:
        """Whether the store certainly still holds the lease. Sends no request."""
        return self._clock.now() < self._end

    def left(self) -> float:
        """Seconds for which it stays alive without a renewal; 0 once it is lost."""
        return max(self._end - self._clock.now(), 0.0)

    async def keep_alive(self) -> bool:
        """Renew once; returns ``alive()``. After an error the lease continues to run out."""
        if not self.alive():
            return False
        sent = self._clock.now()
        renewed = await self._keeper.renew_lease(self.id)
        if not renewed:
            self._lose()
        elif self.alive():  # a late answer must not revive a lost lease
            self._end = sent + self.ttl * LOCAL_SHARE
        return self.alive()

    async def revoke(self) -> None:
        """Revoke the lease and its keys. It counts as lost even after an error."""
        self._lose()
        await self._keeper.revoke_lease(self.id)

    def _lose(self) -> None:
        self._end = float("-inf")


async def keep(lease: Lease, clock: Clock) -> None:
    """Keep renewing ``lease``; returns as soon as it is lost, even while a renewal is pending.

    Run it in a task that you own.
    """
    while lease.alive():
        await clock.sleep(min(lease.ttl / RENEWALS_PER_TTL, lease.left()))
        try:
            await within(clock, lease.left(), lease.keep_alive())
        except (Retriable, UnknownOutcome, TimeoutError):
            continue  # if this persists, the lease runs out
