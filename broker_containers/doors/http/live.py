"""The overview as server-sent events: made once per sample, whatever the number of viewers.

Only the newest one is kept, so a viewer that reads slowly misses some and costs nothing. A stream
ends before the deadline of a request; the browser asks again and shows its token again, so a token
that was revoked does not see much more.
"""

from __future__ import annotations

import asyncio
import contextvars
import json
from typing import Any, Final

from aiohttp import web

from broker_containers.metrics.traffic import TrafficSampler
from broker_containers.operations.running import Operations, visible
from broker_containers.security.access import Access
from sulina.errors import Overloaded
from sulina.operations.overview import OverviewOperations
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from sulina.runtime.tasks import stop_tasks

_MOST_VIEWERS: Final = 64
_SHARE: Final = 0.8
"""Of the time that a request may take."""


class LiveOverview:
    """The viewers of one broker."""

    def __init__(
        self, operations: Operations, sampler: TrafficSampler, clock: Clock, request_seconds: float
    ) -> None:
        self._operations = operations
        self._sampler = sampler
        self._clock = clock
        self._seconds = request_seconds * _SHARE
        self._viewers = 0
        self._task: asyncio.Task[None] | None = None
        self._newest: Any = None
        self._event = b""
        self._changed = asyncio.Event()
        self._closed = False

    async def close(self) -> None:
        """End all streams."""
        self._closed = True
        self._tell()
        await stop_tasks(self._task)

    async def stream(self, request: web.Request, access: Access) -> web.StreamResponse:
        """Send the newest overview, then every one that follows. Raises ``Overloaded``."""
        if self._viewers >= _MOST_VIEWERS:
            raise Overloaded(f"{_MOST_VIEWERS} viewers follow this broker: use another, or wait")
        headers = {"Content-Type": "text/event-stream", "X-Content-Type-Options": "nosniff"}
        response = web.StreamResponse(headers={**headers, "Cache-Control": "no-store"})
        self._viewers += 1
        if self._task is None:
            # Without the rights of the viewer that happens to be the first.
            self._task = asyncio.create_task(
                self._follow(), name="live-overview", context=contextvars.Context()
            )
        try:
            await response.prepare(request)
            until = self._clock.now() + self._seconds
            while not self._closed and (left := until - self._clock.now()) > 0:
                changed = self._changed
                if self._event:
                    await response.write(self._event if access.sees_all else self._for(access))
                try:
                    await within(self._clock, left, changed.wait())
                except TimeoutError:
                    break
            await response.write_eof()
        except ConnectionError:
            pass  # the viewer has left
        finally:
            self._viewers -= 1
            if not self._viewers and self._task is not None:
                self._task.cancel()
                self._task, self._event = None, b""
        return response

    def _for(self, access: Access) -> bytes:
        return _event(visible(self._newest, access))

    async def _follow(self) -> None:
        while True:
            self._newest = await self._operations.run(OverviewOperations.show.name, {})
            self._event = _event(self._newest)
            self._tell()
            await self._sampler.next()

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()


def _event(value: Any) -> bytes:
    return f"event: overview\ndata: {json.dumps(value)}\n\n".encode()
