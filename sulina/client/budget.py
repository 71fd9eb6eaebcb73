"""A limit on the bytes that a producer holds; senders wait while it is used up."""

from __future__ import annotations

import asyncio


class Budget:
    """Counts bytes. Waiting senders resume once half of the limit is free, so that they send many
    records at a time instead of one by one."""

    __slots__ = ("_waiters", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._waiters: list[asyncio.Future[None]] = []

    def give_back(self, cost: int) -> None:
        """Release ``cost`` bytes."""
        self.used -= cost
        if self._waiters and self.used <= self.limit // 2:
            self.wake()

    def wake(self) -> None:
        """Let all waiting senders check again: the budget, and whether the producer still runs."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def change(self) -> None:
        """Wait for the next :meth:`wake`."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        await waiter
