"""A watch on etcd that outlives connections, members and leaders.

It dials, checks that the member is not behind what was acted on and still holds what is asked for,
and reads; whatever breaks, it dials again, the next member if need be, and goes on where it was.
A connection on which nothing came for a while is dialled anew, since a frozen member is silent too.
Events wait here in a bounded buffer; while it is full, nothing is read.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Self

from sulina.errors import Refused
from sulina.metadata.etcd import failures
from sulina.metadata.etcd.codec import Codec, Json
from sulina.metadata.etcd.failures import Failure, RevisionAhead, RevisionGone
from sulina.metadata.etcd.gateway import Gateway, Tries
from sulina.metadata.etcd.position import Position
from sulina.metadata.etcd.settings import Endpoint, EtcdSettings
from sulina.metadata.etcd.stream import Silent
from sulina.metadata.store import Compacted, Event

BUFFER = 1024
"""Events that may wait before no more are read; what comes in one message may exceed it."""


class EtcdWatch:
    """A ``Watch``. Its task starts with the first wait, and ends with ``aclose`` or an error."""

    def __init__(
        self,
        gateway: Gateway,
        codec: Codec,
        settings: EtcdSettings,
        prefix: str,
        from_revision: int,
        on_end: Callable[[EtcdWatch], None],
    ) -> None:
        self._gateway = gateway
        self._codec = codec
        self._settings = settings
        self._range = codec.below(prefix)
        self._position = Position(from_revision)
        self._on_end = on_end
        self._tries = Tries(len(settings.endpoints))
        self._waiting: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._end: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        while not self._waiting:
            if self._end is not None:
                raise self._end
            if self._task is None:
                self._task = asyncio.create_task(self._run(), name="etcd watch")
            self._changed.clear()
            await self._changed.wait()
        event = self._waiting.popleft()
        if len(self._waiting) < BUFFER:
            self._room.set()
        return event

    async def aclose(self) -> None:
        """Stop; an iteration that is waiting ends."""
        await self.end(StopAsyncIteration())

    async def end(self, error: Exception) -> None:
        """Stop, and let waits from now on raise ``error``."""
        self._waiting.clear()
        self._finish(error)
        task = self._task
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait((task,))

    def _finish(self, error: Exception) -> None:
        if self._end is None:
            self._end = error
            self._on_end(self)
        self._changed.set()

    async def _run(self) -> None:
        try:
            while True:
                endpoint = self._gateway.endpoint
                try:
                    await self._follow(endpoint)
                except Failure as failure:
                    self._gateway.turn_from(endpoint)
                    await self._gateway.clock.sleep(self._tries.failed(failure))
        except Exception as error:  # whatever it is, the one who iterates must hear of it
            self._finish(error)

    async def _follow(self, endpoint: Endpoint) -> None:
        """Read events from one member. Returns when it was silent for long; raises ``Failure``."""
        start = self._position.next
        create = self._range | {"start_revision": str(start), "fragment": True}
        body = json.dumps({"create_request": create})
        async with self._gateway.members.stream(endpoint, "/watch", body) as stream:
            message = await stream.next(self._settings.request_seconds)
            if not message.get("canceled"):
                await self._check(endpoint, start)
                self._tries.worked()
            while not message.get("canceled"):
                await self._take(message)
                try:
                    message = await stream.next(self._settings.idle_seconds)
                except Silent:
                    return
            raise _canceled(message, endpoint)

    async def _take(self, message: Json) -> None:
        events = [self._codec.event(raw) for raw in message.get("events", ())]
        fresh = self._position.admit(events, more=bool(message.get("fragment")))
        if not fresh:
            return
        self._gateway.members.horizon.saw(fresh[-1].mod_revision)
        self._waiting.extend(fresh)
        self._changed.set()
        if len(self._waiting) >= BUFFER:
            self._room.clear()
            await self._room.wait()

    async def _check(self, endpoint: Endpoint, start: int) -> None:
        """Make sure that the member is not behind, and holds every change from ``start`` on.

        etcd lets a watch begin in a future that a store restored from a backup will reach again,
        and at a compacted revision although it forgets deletions made by that. So a linearizable
        read at the revision before is asked of the same member: it knows both.
        """
        request = self._range | {"limit": "1", "keys_only": True}
        try:
            await self._ask(endpoint, request | {"revision": str(start - 1)})
        except RevisionGone:
            await self._check_gone(endpoint, request | {"revision": str(start)}, start)
        except RevisionAhead:
            await self._ask(endpoint, request)  # its answer has the revision that it is at

    async def _check_gone(self, endpoint: Endpoint, request: Json, start: int) -> None:
        """The revision before ``start`` is compacted: with more, or just that?"""
        try:
            await self._ask(endpoint, request)
        except RevisionGone:
            return  # etcd is about to say so, and from where a watch can begin
        raise Compacted(start + 1)

    async def _ask(self, endpoint: Endpoint, request: Json) -> None:
        await self._gateway.members.ask(endpoint, "/kv/range", json.dumps(request))


def _canceled(message: Json, endpoint: Endpoint) -> Exception:
    compacted = int(message.get("compact_revision", 0))
    if compacted:
        # At the compacted revision itself etcd may have forgotten a deletion.
        return Compacted(compacted + 1)
    reason = str(message.get("cancel_reason", "no reason given"))
    if "permission denied" in reason:
        # etcd says the same of a token that it no longer knows: only a fresh one tells.
        verdict = Refused(f"etcd does not allow this user to watch: {reason}")
        return Failure(reason, may_have_happened=False, verdict=verdict, token_refused=True)
    return failures.of_code(14, reason, endpoint)
