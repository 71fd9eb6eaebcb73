"""A lease as its holder sees it: its loss is known here before the store forgets it.

The holder counts a lease's life from when it *sent* the last renewal that the store confirmed, and
ends it a little early, so that no answer that is late, lost or slow can make the holder believe in
a lease that the store has given away. Still, a lease is a hint and never a proof: a holder that was
paused does not know it, so whatever a lease guards is fenced as well.
"""

from __future__ import annotations

from typing import Protocol

from sulina.errors import Retriable, UnknownOutcome
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

LOCAL_SHARE = 0.9
"""The part of its time to live during which the holder believes in an unrenewed lease."""
RENEWALS_PER_TTL = 4


class LeaseKeeper(Protocol):
    """What a store does for the leases it granted."""

    async def renew_lease(self, lease: int) -> bool:
        """Start the lease's time to live again; False if it is gone."""
        ...

    async def revoke_lease(self, lease: int) -> None:
        """End the lease and delete its keys in one revision; nothing happens if it is gone."""
        ...


class Lease:
    """A lease that this process holds. Once ``alive()`` was False it stays so."""

    __slots__ = ("_clock", "_end", "_keeper", "id", "ttl")

    def __init__(self, id: int, ttl: int, keeper: LeaseKeeper, clock: Clock, sent: float) -> None:
        """A lease granted with ``ttl`` seconds, by a request that was sent at ``sent``."""
        self.id = id
        self.ttl = ttl
        self._keeper = keeper
        self._clock = clock
        self._end = sent + ttl * LOCAL_SHARE

    def alive(self) -> bool:
        """Whether the store certainly still holds the lease. Asks nobody."""
        return self._clock.now() < self._end

    def left(self) -> float:
        """Seconds for which it stays alive if it is not renewed; 0 once it is lost."""
        return max(self._end - self._clock.now(), 0.0)

    async def keep_alive(self) -> bool:
        """Renew once; returns ``alive()``. An error leaves the lease as it was, running out."""
        if not self.alive():
            return False
        sent = self._clock.now()
        renewed = await self._keeper.renew_lease(self.id)
        if not renewed:
            self._lose()
        elif self.alive():  # an answer that came too late must not bring a lost lease back
            self._end = sent + self.ttl * LOCAL_SHARE
        return self.alive()

    async def revoke(self) -> None:
        """Give the lease up, with its keys. It is lost from the call on, whatever the outcome."""
        self._lose()
        await self._keeper.revoke_lease(self.id)

    def _lose(self) -> None:
        self._end = float("-inf")


async def keep(lease: Lease, clock: Clock) -> None:
    """Renew ``lease`` again and again; returns as soon as it is lost, even while the store keeps a
    renewal waiting. Run it in a task you own."""
    while lease.alive():
        await clock.sleep(min(lease.ttl / RENEWALS_PER_TTL, lease.left()))
        try:
            await within(clock, lease.left(), lease.keep_alive())
        except (Retriable, UnknownOutcome, TimeoutError):
            continue  # the lease runs out by itself if this does not pass
