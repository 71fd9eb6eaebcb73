"""Calls to etcd that fail over: to the member that answered last, then to the others in turn.

A call that certainly had no effect, or that may safely happen twice, is retried at the next member
until ``call_seconds`` have passed (``Unavailable``). The last try still gets its full time, so that
no write ends with an unknown outcome only because time was short. A write that was sent but not
answered is never sent again: it raises ``UnknownOutcome``. At most ``max_in_flight`` calls run at
once.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from sulina.errors import Closed, Overloaded, SulinaError, Unavailable, UnknownOutcome
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import MemberFailure
from sulina.metadata.etcd.members import EtcdMembers
from sulina.metadata.etcd.settings import EtcdEndpoint, EtcdSettings
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_STATUS_SECONDS = 1.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0


@dataclass(frozen=True, slots=True)
class EtcdAnswer:
    """etcd's answer, and the clock's time at which its request was sent."""

    body: Json
    sent: float


class EtcdGateway:
    """Connects to etcd at the first call. Create it inside an event loop."""

    def __init__(self, settings: EtcdSettings, clock: Clock) -> None:
        self.members = EtcdMembers(settings, clock)
        self.clock = clock
        self._settings = settings
        self._current = 0
        self._slots = asyncio.Semaphore(settings.max_in_flight)
        self._in_flight = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._closed = False

    @property
    def endpoint(self) -> EtcdEndpoint:
        """The member that the next call goes to."""
        return self._settings.endpoints[self._current]

    def move_on_from(self, endpoint: EtcdEndpoint) -> None:
        """Use the next member from now on, unless another call has moved on from this one."""
        if self.endpoint == endpoint:
            self._current = (self._current + 1) % len(self._settings.endpoints)

    def check_open(self) -> None:
        """Raise ``Closed`` if the gateway is closed."""
        if self._closed:
            raise Closed("the metadata store is closed")

    async def call(self, rpc: str, request: Json, *, repeatable: bool) -> EtcdAnswer:
        """Send a request. ``repeatable`` means that it is safe if the request happens twice.

        Raises ``Unavailable``, ``Overloaded``, ``UnknownOutcome``, ``Closed``, and the errors that
        ``failures`` makes of etcd's own.
        """
        body = json.dumps(request, separators=(",", ":"))
        end = self.clock.now() + self._settings.call_seconds
        async with self._slot():
            retries = MemberRetries(len(self._settings.endpoints))
            reason = "no time was left to send the request"
            while (sent := self.clock.now()) < end:
                endpoint = self.endpoint
                try:
                    return EtcdAnswer(await self.members.ask(endpoint, rpc, body), sent)
                except MemberFailure as failure:
                    self.move_on_from(endpoint)
                    if failure.may_have_happened and not repeatable:
                        raise UnknownOutcome(
                            f"{failure.reason}: the change may have been made; read back before "
                            "trying again"
                        ) from failure
                    reason = failure.reason
                    pause = retries.failed(failure)
                await self.clock.sleep(min(pause, max(end - self.clock.now(), 0)))
            raise Unavailable(f"the metadata store does not answer: {reason}; is etcd running?")

    async def silent_members(self) -> list[str]:
        """The addresses of members that do not answer within a second."""

        async def answers(endpoint: EtcdEndpoint) -> bool:
            try:
                asked = self.members.ask(endpoint, "/maintenance/status", "{}")
                await within(self.clock, _STATUS_SECONDS, asked)
            except (MemberFailure, TimeoutError):
                return False
            except SulinaError:
                pass  # it refuses, so it is there
            return True

        endpoints = self._settings.endpoints
        found = await asyncio.gather(*map(answers, endpoints))
        return [str(each) for each, there in zip(endpoints, found, strict=True) if not there]

    async def close(self) -> None:
        """Wait for the calls in flight, each at most its own time, and close all connections."""
        self._closed = True
        await self._idle.wait()
        await self.members.close()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        self.check_open()
        self._in_flight += 1
        self._idle.clear()
        try:
            await self._acquire_slot()
            try:
                yield
            finally:
                self._slots.release()
        finally:
            self._in_flight -= 1
            if not self._in_flight:
                self._idle.set()

    async def _acquire_slot(self) -> None:
        if not self._slots.locked():
            await self._slots.acquire()  # returns at once
            return
        seconds, slots = self._settings.call_seconds, self._slots
        try:
            await within(self.clock, seconds, slots.acquire(), discard=lambda _: slots.release())
        except TimeoutError:
            raise Overloaded(
                f"all {self._settings.max_in_flight} calls to etcd that may run at once are still "
                "waiting for answers: try again later"
            ) from None


class MemberRetries:
    """Counts failures in a row: the next member is tried at once, later rounds after a pause."""

    def __init__(self, members: int) -> None:
        self._members = members
        self._failures = 0
        self._final = 0

    def failed(self, failure: MemberFailure) -> float:
        """Seconds to wait. Raises the verdict once every member in a row failed for good."""
        self._failures += 1
        self._final = self._final + 1 if failure.verdict else 0
        if failure.verdict and self._final > self._members:
            raise failure.verdict from failure
        rounds, member = divmod(self._failures, self._members)
        if failure.token_refused or member:
            return 0.0
        return min(FIRST_PAUSE * (1 << min(rounds - 1, 10)), LONGEST_PAUSE)

    def worked(self) -> None:
        """Reset the count after a success."""
        self._failures = self._final = 0
