"""Retries a request: each attempt has a timeout, with growing pauses in between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sulina.errors import Unavailable
from sulina.objects.outcomes import TemporaryFailure
from sulina.objects.store import ObjectSettings
from sulina.runtime.deadline import within
from sulina.runtime.retry_delay import RetryDelay
from sulina.runtime.seam import Clock, Randomness

_T = TypeVar("_T")


class Retrier:
    """Retries until an attempt succeeds or the maximum number of attempts is reached."""

    def __init__(self, clock: Clock, random: Randomness, settings: ObjectSettings) -> None:
        self._clock = clock
        self._random = random
        self._settings = settings

    async def __call__(
        self, what: str, attempt: Callable[[], Awaitable[_T]], attempts: int = 0
    ) -> _T:
        """The result of the first attempt without ``TemporaryFailure`` or timeout.

        Any other error is raised immediately. Raises ``Unavailable`` after the last attempt;
        ``what`` names the request in its text. ``attempts`` lowers the maximum of the settings; 0
        means that maximum.
        """
        settings, backoff, reason = self._settings, RetryDelay(self._random), ""
        attempts = min(attempts or settings.attempts, settings.attempts)
        for number in range(attempts):
            if number:
                await self._clock.sleep(backoff.next())
            try:
                return await within(self._clock, settings.deadline_seconds, attempt())
            except TimeoutError:
                reason = f"there was no answer within {settings.deadline_seconds:g} s"
            except TemporaryFailure as failure:
                reason = str(failure)
        raise Unavailable(f"{what} failed after {attempts} attempts: {reason}")
