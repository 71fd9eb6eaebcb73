"""Waiting for something to become true, with a bound that suits slow machines."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

SECONDS = 60.0


async def until(true: Callable[[], object]) -> None:
    """Look again and again; fails the test if it does not become true."""
    async with asyncio.timeout(SECONDS):
        while not true():
            await asyncio.sleep(0.01)
