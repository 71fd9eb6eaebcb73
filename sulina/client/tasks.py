"""Runs calls concurrently, leaving no task behind."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from sulina.runtime.tasks import stop_tasks

_AT_ONCE: Final = 32

Call = Callable[[], Awaitable[None]]


async def run_all_or_cancel(calls: Sequence[Call]) -> None:
    """Await all calls, up to 32 at a time. The first failure cancels the rest and is raised."""
    tasks = _start(calls)
    try:
        await asyncio.gather(*tasks)
    finally:
        await stop_tasks(*tasks)


async def run_all(calls: Sequence[Call]) -> None:
    """Await all calls, up to 32 at a time, even if some fail; then raise the first failure."""
    tasks = _start(calls)
    try:
        outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        await stop_tasks(*tasks)
    for outcome in outcomes:
        if outcome is not None:
            raise outcome


def _start(calls: Sequence[Call]) -> list[asyncio.Task[None]]:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(call: Call) -> None:
        async with limit:
            await call()

    return [asyncio.create_task(one(call)) for call in calls]
