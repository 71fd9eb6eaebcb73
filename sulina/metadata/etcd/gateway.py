"""Calls to etcd as a whole: to the member that worked last, and to the next where one fails.

A call that certainly had no effect moves on to the next member, as does one that does no harm when
it happens twice, until its time is over (``Unavailable``); the last try still gets its full time,
so that no write is left in doubt for want of a moment. A write whose answer did not come is never
sent again: ``UnknownOutcome``. No more calls are under way at once than the settings say.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sulina.errors import Closed, Overloaded, Unavailable, UnknownOutcome
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import Failure
from sulina.metadata.etcd.members import Members
from sulina.metadata.etcd.settings import Endpoint, EtcdSettings
from sulina.runtime.seam import Clock

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What etcd answered, and when (by the clock) the request that it answers was sent."""

    body: Json
    sent: float


class Gateway:
    """The way to etcd. Make it inside an event loop; asks nobody until the first call."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self.members = Members(settings)
        self.clock = clock
        self._settings = settings
        self._current = 0
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @property
    def endpoint(self) -> Endpoint:
        """The member that is asked now."""
        return self._settings.endpoints[self._current]

    def turn_from(self, endpoint: Endpoint) -> None:
        """Ask another member than ``endpoint``, unless somebody turned from it already."""
        if self.endpoint == endpoint:
            self._current = (self._current + 1) % len(self._settings.endpoints)

    def check_open(self) -> None:
        """Raises ``Closed`` once it is."""
        if self._closed:
            raise Closed("the metadata store is closed")

    async def call(self, rpc: str, request: Json, *, repeatable: bool) -> Answer:
        """Ask etcd. ``repeatable`` says that it does no harm if the request happens twice.

        Raises ``Unavailable``, ``Overloaded``, ``UnknownOutcome``, ``Closed``, and what etcd itself
        refuses, as ``failures`` tells it.
        """
        body = json.dumps(request, separators=(",", ":"))
        end = self.clock.now() + self._settings.call_seconds
        async with self._slot():
            tries = Tries(len(self._settings.endpoints))
            reason = "no time was left to ask"
            while (sent := self.clock.now()) < end:
                endpoint = self.endpoint
                try:
                    return Answer(await self.members.ask(endpoint, rpc, body), sent)
                except Failure as failure:
                    self.turn_from(endpoint)
                    if failure.may_have_happened and not repeatable:
                        raise UnknownOutcome(
                            f"{failure.reason}: the change may have been made, read back before "
                            "you try again"
                        ) from failure
                    reason = failure.reason
                    pause = tries.failed(failure)
                await self.clock.sleep(min(pause, max(end - self.clock.now(), 0)))
            raise Unavailable(f"no metadata store answers: {reason}; is etcd running?")

    async def close(self) -> None:
        """Let the calls under way end, each in its time, and close all connections."""
        self._closed = True
        await self._idle.wait()
        await self.members.close()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        self.check_open()
        self._under_way += 1
        self._idle.clear()
        try:
            try:
                async with asyncio.timeout(self._settings.call_seconds):
                    await self._slots.acquire()
            except TimeoutError:
                raise Overloaded(
                    f"{self._settings.max_in_flight} calls to etcd are under way and none ended: "
                    "try again later"
                ) from None
            try:
                yield
            finally:
                self._slots.release()
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()


class Tries:
    """How often something failed in a row: the next member at once, then pauses that grow."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._failures = 0
        self._hopeless = 0

    def failed(self, failure: Failure) -> float:
        """Seconds to wait. Raises the verdict once every member was found hopeless in a row."""
        self._failures += 1
        self._hopeless = self._hopeless + 1 if failure.verdict else 0
        if failure.verdict and self._hopeless > self._members:
            raise failure.verdict from failure
        rounds, member = divmod(self._failures, self._members)
        if failure.token_refused or member:
            return 0.0
        return min(FIRST_PAUSE * (1 << min(rounds - 1, 10)), LONGEST_PAUSE)

    def worked(self) -> None:
        """Start anew."""
        self._failures = self._hopeless = 0
