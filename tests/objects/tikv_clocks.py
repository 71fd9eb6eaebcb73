"""The clock of TiKV clients in tests."""

from __future__ import annotations

import asyncio
from typing import Final

from sulina.runtime.real_clock import RealClock

_PAUSES_UP_TO: Final = 5.0


class QuickClock(RealClock):
    """Makes pauses between attempts short; deadlines stay as they are."""

    __slots__ = ("ended",)

    def __init__(self) -> None:
        self.ended = False
        """The process has ended: whatever waits never goes on."""

    async def sleep(self, seconds: float) -> None:
        if self.ended:
            raise asyncio.CancelledError
        await super().sleep(seconds / 500 if seconds < _PAUSES_UP_TO else seconds)
