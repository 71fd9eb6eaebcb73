"""Attempts at one request: each with a deadline, growing pauses between, an end."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sulina.errors import Unavailable
from sulina.objects.answers import Passing
from sulina.objects.store import ObjectSettings
from sulina.runtime.deadline import within
from sulina.runtime.retry_delay import RetryDelay
from sulina.runtime.seam import Clock, Randomness

_T = TypeVar("_T")


class Retrier:
    """Makes attempts until one succeeds, or there were as many as the settings allow."""

    def __init__(self, clock: Clock, random: Randomness, settings: ObjectSettings) -> None:
        self._clock = clock
        self._random = random
        self._settings = settings

    async def __call__(
        self, what: str, attempt: Callable[[], Awaitable[_T]], attempts: int = 0
    ) -> _T:
        """The outcome of the first attempt that neither raises ``Passing`` nor takes too long.

        Any other error ends it at once. Raises ``Unavailable`` in the end: ``what`` is the subject
        of its sentence. ``attempts`` is for fewer than the settings allow; 0 for all.
        """
        settings, backoff, reason = self._settings, RetryDelay(self._random), ""
        attempts = min(attempts or settings.attempts, settings.attempts)
        for number in range(attempts):
            if number:
                await self._clock.sleep(backoff.next())
            try:
                return await within(self._clock, settings.deadline_seconds, attempt())
            except TimeoutError:
                reason = f"there was no answer in {settings.deadline_seconds:g} s"
            except Passing as failure:
                reason = str(failure)
        raise Unavailable(f"{what} failed in {attempts} attempts; at last {reason}")
