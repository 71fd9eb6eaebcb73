"""Keeps tasks running, and ends them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from sulina.runtime.seam import Clock

_PAUSE: Final = 10.0


async def keep_running(name: str, work: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run background work until it returns or is cancelled.

    If it raises, which is a fault of the program, the event loop's exception handler is told, which
    logs it, and the work starts again after ten seconds: otherwise it would be missing, unseen,
    until the next restart of the process.
    """
    while True:
        try:
            return await work()
        except Exception as error:
            message = f"{name} failed unexpectedly; starting it again in {_PAUSE:.0f} s"
            asyncio.get_running_loop().call_exception_handler(
                {"message": message, "exception": error}
            )
        await clock.sleep(_PAUSE)


async def stop_tasks(*tasks: asyncio.Future[Any] | None) -> None:
    """Cancel tasks and wait until they have ended. Their errors are not raised."""
    running = [task for task in tasks if task is not None]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
