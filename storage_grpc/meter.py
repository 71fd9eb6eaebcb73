"""Counts bytes that are under way, and holds back those who would add more."""

from __future__ import annotations

import asyncio


class Meter:
    """Overloaded above the high-water mark; room again at half of it."""

    def __init__(self, high_water: int) -> None:
        self._high_water = high_water
        self._bytes = 0
        self._room: asyncio.Future[None] | None = None

    def add(self, size: int) -> None:
        self._bytes += size

    def remove(self, size: int) -> None:
        self._bytes -= size
        if self._room is not None and self._bytes <= self._high_water // 2:
            self._room.set_result(None)
            self._room = None

    @property
    def overloaded(self) -> bool:
        return self._bytes > self._high_water

    async def wait(self) -> None:
        """Wait until there is room. Many may wait; cancelling one does not disturb the others."""
        while self.overloaded:
            if self._room is None:
                self._room = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._room)
