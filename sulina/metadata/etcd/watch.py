"""A watch on etcd that survives broken connections, failed members and leader changes.

It connects, checks that the member is not behind what this process has seen and still holds the
requested revisions, and reads. If anything breaks, it reconnects, to the next member if necessary,
and resumes where it was. It also reconnects when nothing has arrived for ``idle_seconds``, because
a frozen member sends nothing either. Events are buffered up to a limit; while the buffer is full,
nothing is read.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from typing import Self

from sulina.errors import Refused
from sulina.metadata.etcd import failures
from sulina.metadata.etcd.codec import EtcdCodec, Json
from sulina.metadata.etcd.failures import MemberFailure, RevisionAhead, RevisionGone
from sulina.metadata.etcd.gateway import EtcdGateway, MemberRetries
from sulina.metadata.etcd.settings import EtcdEndpoint, EtcdSettings
from sulina.metadata.etcd.stream import StreamIdle
from sulina.metadata.etcd.watch_progress import WatchProgress
from sulina.metadata.store import Compacted, Event

BUFFER = 1024
"""Buffered events at which reading stops. The events of one message may exceed it."""


class EtcdWatch:
    """A ``Watch``. Its task starts at the first iteration and ends with ``aclose`` or an error."""

    def __init__(
        self,
        gateway: EtcdGateway,
        codec: EtcdCodec,
        settings: EtcdSettings,
        prefix: str,
        from_revision: int,
        on_end: Callable[[EtcdWatch], None],
    ) -> None:
        self._gateway = gateway
        self._codec = codec
        self._settings = settings
        self._range = codec.below(prefix)
        self._progress = WatchProgress(from_revision)
        self._on_end = on_end
        self._retries = MemberRetries(len(settings.endpoints))
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
        """Stop; a waiting iteration ends."""
        await self.end(StopAsyncIteration())

    async def end(self, error: Exception) -> None:
        """Stop; later iterations raise ``error``."""
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
                except MemberFailure as failure:
                    self._gateway.move_on_from(endpoint)
                    await self._gateway.clock.sleep(self._retries.failed(failure))
        except Exception as error:  # raised to the iterating task, whatever it is
            self._finish(error)

    async def _follow(self, endpoint: EtcdEndpoint) -> None:
        """Read events from one member. Returns when it is idle; raises ``MemberFailure``."""
        start = self._progress.next
        create = self._range | {"start_revision": str(start), "fragment": True}
        body = json.dumps({"create_request": create})
        async with self._gateway.members.stream(endpoint, "/watch", body) as stream:
            message = await stream.next(self._settings.request_seconds)
            if not message.get("canceled"):
                await self._check(endpoint, start)
                self._retries.worked()
            while not message.get("canceled"):
                await self._take(message)
                try:
                    message = await stream.next(self._settings.idle_seconds)
                except StreamIdle:
                    return
            raise _canceled(message, endpoint)

    async def _take(self, message: Json) -> None:
        events = [self._codec.event(raw) for raw in message.get("events", ())]
        fresh = self._progress.admit(events, more=bool(message.get("fragment")))
        if not fresh:
            return
        self._gateway.members.seen.saw(fresh[-1].mod_revision)
        self._waiting.extend(fresh)
        self._changed.set()
        if len(self._waiting) >= BUFFER:
            self._room.clear()
            await self._room.wait()

    async def _check(self, endpoint: EtcdEndpoint, start: int) -> None:
        """Make sure that the member is not behind, and holds every change from ``start`` on.

        etcd accepts a watch at a future revision, which a store restored from a backup will reach
        again, and at a compacted revision, although it forgets the deletions made by that one. A
        linearizable read of the previous revision at the same member detects both.
        """
        request = self._range | {"limit": "1", "keys_only": True}
        try:
            await self._ask(endpoint, request | {"revision": str(start - 1)})
        except RevisionGone:
            await self._check_gone(endpoint, request | {"revision": str(start)}, start)
        except RevisionAhead:
            await self._ask(endpoint, request)  # its answer carries the current revision

    async def _check_gone(self, endpoint: EtcdEndpoint, request: Json, start: int) -> None:
        """The revision before ``start`` is compacted: find out whether ``start`` is as well."""
        try:
            await self._ask(endpoint, request)
        except RevisionGone:
            return  # etcd will report it, with the revision at which a watch can start
        raise Compacted(start + 1)

    async def _ask(self, endpoint: EtcdEndpoint, request: Json) -> None:
        await self._gateway.members.ask(endpoint, "/kv/range", json.dumps(request))


def _canceled(message: Json, endpoint: EtcdEndpoint) -> Exception:
    compacted = int(message.get("compact_revision", 0))
    if compacted:
        # etcd may have forgotten a deletion made by the compacted revision itself.
        return Compacted(compacted + 1)
    reason = str(message.get("cancel_reason", "no reason given"))
    if "permission denied" in reason:
        # etcd reports an unknown token the same way: only a fresh one can tell the two apart.
        verdict = Refused(
            f"etcd does not allow this user to watch ({reason}): grant it the keys below the root"
        )
        return MemberFailure(reason, may_have_happened=False, verdict=verdict, token_refused=True)
    return failures.of_code(14, reason, endpoint)
