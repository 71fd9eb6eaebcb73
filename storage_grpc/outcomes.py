"""Outcomes of appends: as a call when they are known, or as a future.

A call costs less than a future and takes no turn of the event loop, so whoever has many appends in
progress uses calls. A future can be awaited.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from sulina.errors import SulinaError

_log = logging.getLogger(__name__)

Done = Callable[[SulinaError | None], None]
"""Called once, on the event loop: with None, or with the error. Must not raise."""


def future_of(submit: Callable[[Done], None]) -> asyncio.Future[None]:
    """The outcome that ``submit`` reports to the function that it is given."""
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: SulinaError | None) -> None:
        if outcome.done():
            return  # whoever waited was cancelled
        if error is None:
            outcome.set_result(None)
        else:
            outcome.set_exception(error)

    submit(done)
    return outcome


def tell(done: Done, error: SulinaError | None) -> None:
    """Report an outcome. A fault of the function that gets it is logged, and concerns no other."""
    try:
        done(error)
    except Exception:
        _log.exception("the outcome of an append is lost")
