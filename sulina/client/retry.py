"""When to try again, and how long to wait before it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from sulina.errors import Fenced, Retriable, SulinaError, Unavailable, UnknownOutcome
from sulina.runtime.deadline import within
from sulina.runtime.seam import Randomness, Runtime

_T = TypeVar("_T")

FIRST_DELAY: Final = 0.05
LONGEST_DELAY: Final = 5.0


def may_retry(error: BaseException) -> bool:
    """Whether the same call, made again after a new lookup, may succeed."""
    return isinstance(error, Retriable | Fenced | UnknownOutcome)


class Backoff:
    """Delays that double from 50 ms to 5 s. Each is shortened by up to half, at random, so that
    many clients that lost one broker do not come back at the same moment."""

    __slots__ = ("_delay", "_random")

    def __init__(self, random: Randomness) -> None:
        self._random = random
        self._delay = FIRST_DELAY

    def next(self) -> float:
        """Seconds to wait now."""
        delay = self._delay
        self._delay = min(2 * delay, LONGEST_DELAY)
        return delay * (0.5 + self._random.random() / 2)

    def reset(self) -> None:
        """Things work again: the next failure is a new one."""
        self._delay = FIRST_DELAY


async def retry(runtime: Runtime, seconds: float, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """The result of the first ``attempt`` that succeeds within ``seconds``.

    Raises at once what can't be helped by trying again, and the last error when time is up. Only
    for work that may be done twice.
    """
    clock, backoff = runtime.clock, Backoff(runtime.random)
    end = clock.now() + seconds
    last: SulinaError = Unavailable(f"the broker did not answer in {seconds:g} s")
    while (left := end - clock.now()) > 0:
        try:
            return await within(clock, left, attempt())
        except TimeoutError:
            break
        except SulinaError as error:
            if not may_retry(error):
                raise
            last = error
        await clock.sleep(min(backoff.next(), max(end - clock.now(), 0)))
    raise last
