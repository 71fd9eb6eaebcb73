"""Replaces objects in a child process, whose main function is here.

Decoding, sorting and encoding hold Python's interpreter lock for long: in this process, appends
would wait for it. The child has its own connection to the store, and needs nothing else.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from storage_grpc.entries import Entry
from storage_grpc.tier.tier import Offloaded, ReplaceJob
from sulina.errors import Refused
from sulina.lake.summary import ObjectHead
from sulina.metadata.keys.erasures import Ranges
from sulina.runtime.helper_process import HelperProcess, Serve, serve_calls
from sulina.runtime.logs import LogSetup
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_random import real_random
from sulina.runtime.seam import Clock
from sulina.runtime.threads import ThreadRunner

_THREADS: Final = 2


@dataclass(frozen=True, slots=True)
class _Setup:
    """What a child needs to know."""

    url: str
    logs: LogSetup


@dataclass(frozen=True, slots=True)
class _CountJob:
    """See ``Tier.count_erasable``."""

    head: ObjectHead
    key_digests: tuple[str, ...]
    offsets: Ranges


class TierHelper:
    """Works on the objects at ``url``, one job at a time. ``close`` ends the child, if there is
    one. Methods raise as those of ``Tier`` do, and ``Unavailable`` if the child ends early."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._process = HelperProcess(__name__, _Setup(url, LogSetup.of_this_process()), clock)

    async def replace(self, job: ReplaceJob) -> Offloaded:
        """See ``Tier.replace``."""
        made = await self._process.call(job)
        assert isinstance(made, Offloaded)
        return made

    async def count_erasable(
        self, head: ObjectHead, key_digests: Sequence[str], offsets: Ranges
    ) -> int:
        """See ``Tier.count_erasable``."""
        found = await self._process.call(_CountJob(head, tuple(key_digests), offsets))
        assert isinstance(found, int)
        return found

    async def close(self) -> None:
        await self._process.close()


def can_share(url: str) -> bool:
    """Whether another process sees the objects of a store, too."""
    return not url.startswith("memory:")


class _NoEntries:
    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        raise Refused(f"entries of ledger {ledger} are not read in this process")


@asynccontextmanager
async def _opened(setup: Any) -> AsyncIterator[Serve]:
    from storage_grpc.tier.local import LocalTier  # loads pyarrow
    from sulina.objects.opening import open_store

    assert isinstance(setup, _Setup)
    setup.logs.apply()
    async with open_store(setup.url, RealClock(), real_random()) as store:
        tier = LocalTier(store, _NoEntries(), ThreadRunner(_THREADS), cache_bytes=0)

        async def serve(job: Any) -> Any:
            if isinstance(job, ReplaceJob):
                return await tier.replace(job)
            assert isinstance(job, _CountJob)
            return await tier.count_erasable(job.head, job.key_digests, job.offsets)

        try:
            yield serve
        finally:
            await tier.close()


def main() -> NoReturn:
    """The child."""
    serve_calls(_opened)
