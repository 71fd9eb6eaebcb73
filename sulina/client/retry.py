"""Which errors to retry, and how long to wait before that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sulina.errors import Fenced, Retriable, SulinaError, Unavailable, UnknownOutcome
from sulina.runtime.deadline import within
from sulina.runtime.retry_delay import RetryDelay
from sulina.runtime.seam import Runtime

_T = TypeVar("_T")


def may_retry(error: BaseException) -> bool:
    """Whether the same call may succeed after a new lookup."""
    return isinstance(error, Retriable | Fenced | UnknownOutcome)


async def retry(runtime: Runtime, seconds: float, attempt: Callable[[], Awaitable[_T]]) -> _T:
    """The result of the first ``attempt`` that succeeds within ``seconds``.

    Raises an error that a retry cannot help immediately, and the last error when time is up. Use
    it only for calls that may safely happen twice.
    """
    clock, backoff = runtime.clock, RetryDelay(runtime.random)
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
