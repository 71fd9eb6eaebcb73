"""Outcomes of appends: as a call when they are known, or as a future.

A call costs less than a future and takes no turn of the event loop, so whoever has many appends in
progress uses calls. A future can be awaited.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sulina.errors import SulinaError, UnknownOutcome

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


def report(outcome: asyncio.Future[None], done: Done) -> None:
    """Call ``done`` when a future is."""
    outcome.add_done_callback(lambda found: done(error_of(found)))


def error_of(outcome: asyncio.Future[None]) -> SulinaError | None:
    """Why a future failed; None if it succeeded."""
    if outcome.cancelled():
        return UnknownOutcome("it was cancelled: the entry may be stored")
    error = outcome.exception()
    return error if error is None or isinstance(error, SulinaError) else UnknownOutcome(str(error))
