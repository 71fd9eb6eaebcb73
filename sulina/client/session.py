"""Keeps one producer or consumer attached to the broker that serves its topic.

When the attachment breaks, for whatever reason, the session looks the topic up again and attaches
anew, with growing pauses, until it succeeds, is refused, or has tried for too long.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final, Protocol

from sulina.client.connection import Connection
from sulina.client.options import ClientOptions
from sulina.client.retry import Backoff, may_retry, retry
from sulina.client.topics import Topics
from sulina.errors import AlreadyExists, Closed, SulinaError
from sulina.model import Delivery
from sulina.runtime.seam import Runtime

GOODBYE_SECONDS: Final = 2.0
"""How long a broker is waited for when a producer or consumer leaves it."""

_STABLE_SECONDS: Final = 5.0
"""An attachment that lasted so long was a good one."""

_log = logging.getLogger("sulina.client")


class Attachment(Protocol):
    """What a session keeps attached."""

    async def attach(self, connection: Connection) -> None:
        """Introduce yourself to the broker there. May be called again after any error."""
        ...

    def detached(self, reason: SulinaError) -> None:
        """The attachment broke; a new one is being made."""
        ...

    def failed(self, error: SulinaError) -> None:
        """There will be no new attachment: tell the application. Called at most once, last."""
        ...


class Session:
    """One attachment's life. Owns one task from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        topic: str,
        attachment: Attachment,
        topics: Topics,
        runtime: Runtime,
        options: ClientOptions,
    ) -> None:
        self._topic = topic
        self._attachment = attachment
        self._topics = topics
        self._runtime = runtime
        self._options = options
        self._backoff = Backoff(runtime.random)
        self._broken: asyncio.Future[SulinaError] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, create: bool, delivery: Delivery | None) -> None:
        """Attach for the first time, within the operation timeout. Raises what prevents it."""
        await retry(
            self._runtime,
            self._options.operation_timeout,
            lambda: self._attach(create=create, delivery=delivery),
        )
        self._task = asyncio.create_task(self._keep())

    def broke(self, reason: SulinaError) -> None:
        """To be told by the attachment: the broker closed it, or the connection is lost."""
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(reason)

    def progressed(self) -> None:
        """To be told by the attachment: it does work, so the next pause may be short again."""
        self._backoff.reset()

    async def stop(self) -> None:
        """End the task. The attachment itself is the caller's to close."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _attach(self, *, create: bool, delivery: Delivery | None) -> None:
        connection = await self._topics.owner(self._topic, create=create, delivery=delivery)
        self._broken = asyncio.get_running_loop().create_future()
        await self._attachment.attach(connection)

    async def _keep(self) -> None:
        while True:
            assert self._broken is not None
            attached = self._runtime.clock.now()
            reason = await self._broken
            if self._runtime.clock.now() - attached > _STABLE_SECONDS:
                self._backoff.reset()  # one that is idle, or stands by, makes no other progress
            if not may_retry(reason):
                self._attachment.failed(reason)
                return
            _log.info("%s: %s; attaching again", self._topic, reason)
            self._attachment.detached(reason)
            error = await self._attach_again()
            if error is not None:
                self._attachment.failed(error)
                return
            _log.info("%s: attached again", self._topic)

    async def _attach_again(self) -> SulinaError | None:
        """None once attached, or why that can't be."""
        clock = self._runtime.clock
        began = clock.now()
        while True:
            await self._topics.pause(self._backoff.next())
            tried_for = clock.now() - began
            try:
                await self._attach(create=False, delivery=None)
            except AlreadyExists as error:
                # A broker may need a while to notice that our former connection is dead.
                if tried_for > self._options.operation_timeout:
                    return error
            except SulinaError as error:
                if not may_retry(error) or tried_for > self._options.reconnect_timeout:
                    return error
            else:
                return None


def closed_error(what: str) -> Closed:
    """The error for calls on something that its own user closed."""
    return Closed(f"the {what} is closed: open a new one")
