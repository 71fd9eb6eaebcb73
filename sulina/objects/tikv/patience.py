"""How long one request is repeated before the whole attempt has failed."""

from __future__ import annotations

from typing import Final

from sulina.objects.outcomes import TemporaryFailure
from sulina.runtime.retry_delay import RetryDelay
from sulina.runtime.seam import Clock, Randomness

_PAUSES: Final = 12
PAUSES_FOR_PD: Final = 7
"""About 5 s for each attempt: enough, with all attempts, for an election, and few enough to say
within a minute that nobody is there."""


class Patience:
    """Growing pauses between the repetitions of one request; a bounded number of them."""

    def __init__(self, clock: Clock, random: Randomness, pauses: int = _PAUSES) -> None:
        self._clock = clock
        self._delay = RetryDelay(random)
        self._left = pauses

    async def pause(self, failure: TemporaryFailure, at_least: float = 0.0) -> None:
        """Wait before the next repetition. Raises ``failure`` when there have been enough."""
        if self._left == 0:
            raise failure
        self._left -= 1
        await self._clock.sleep(max(self._delay.next(), at_least))
