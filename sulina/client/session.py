"""Keeps one producer or consumer attached to the broker that serves its topic.

When the attachment breaks, for any reason, the session looks up the topic again and reattaches,
with growing pauses, until it succeeds, is refused, or the reconnect timeout has passed.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Final, Protocol, Self

from sulina.client.connection import Connection
from sulina.client.options import ClientOptions
from sulina.client.retry import may_retry, retry
from sulina.client.topics import TopicLookup
from sulina.errors import AlreadyExists, Closed, SulinaError
from sulina.model import Delivery
from sulina.runtime.retry_delay import RetryDelay
from sulina.runtime.seam import Runtime

GOODBYE_SECONDS: Final = 2.0
"""How long to wait for the broker when a producer or consumer closes."""

_STABLE_SECONDS: Final = 5.0
"""After an attachment has lasted this long, the next pause starts short again."""

_log = logging.getLogger("sulina.client")


class Attachment(Protocol):
    """A producer or consumer that a session keeps attached."""

    async def attach(self, connection: Connection) -> None:
        """Register with the broker. May be called again after any error."""
        ...

    def detached(self, reason: SulinaError) -> None:
        """The attachment broke; the session is reattaching."""
        ...

    def failed(self, error: SulinaError) -> None:
        """The session gave up: notify the application. Called at most once, as the last call."""
        ...


class TopicSession:
    """Keeps one attachment alive. Owns one task from :meth:`start` to :meth:`stop`."""

    def __init__(
        self,
        topic: str,
        attachment: Attachment,
        topics: TopicLookup,
        runtime: Runtime,
        options: ClientOptions,
    ) -> None:
        self._topic = topic
        self._attachment = attachment
        self._topics = topics
        self._runtime = runtime
        self._options = options
        self._backoff = RetryDelay(runtime.random)
        self._broken: asyncio.Future[SulinaError] | None = None
        self._task: asyncio.Task[None] | None = None

    async def start(self, *, create: bool, delivery: Delivery | None) -> None:
        """Attach for the first time, within the operation timeout. Raises the last error."""
        await retry(
            self._runtime,
            self._options.operation_timeout,
            lambda: self._attach(create=create, delivery=delivery),
        )
        self._task = asyncio.create_task(self._keep())

    def broke(self, reason: SulinaError) -> None:
        """Called by the attachment when the broker closed it or the connection is lost."""
        if self._broken is not None and not self._broken.done():
            self._broken.set_result(reason)

    def progressed(self) -> None:
        """Called by the attachment when it makes progress: the next pause starts short again."""
        self._backoff.reset()

    async def stop(self) -> None:
        """Stop the task. The caller closes the attachment itself."""
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
                self._backoff.reset()  # an idle or standby attachment makes no other progress
            if not may_retry(reason):
                self._attachment.failed(reason)
                return
            _log.info("%s: %s; reattaching", self._topic, reason)
            self._attachment.detached(reason)
            error = await self._attach_again()
            if error is not None:
                self._attachment.failed(error)
                return
            _log.info("%s: reattached", self._topic)

    async def _attach_again(self) -> SulinaError | None:
        """None once attached, or the error that made it give up."""
        clock = self._runtime.clock
        began = clock.now()
        while True:
            await self._topics.pause(self._backoff.next())
            tried_for = clock.now() - began
            try:
                await self._attach(create=False, delivery=None)
            except AlreadyExists as error:
                # A broker may take a while to notice that our previous connection is dead.
                if tried_for > self._options.operation_timeout:
                    return error
            except SulinaError as error:
                if not may_retry(error) or tried_for > self._options.reconnect_timeout:
                    return error
            else:
                return None


class AsyncResource(ABC):
    """Opened by ``async with``, closed at its end; not waiting for the broker if cancelled.

    An error that ends the block is raised in place of errors of ``close``.
    """

    @abstractmethod
    async def open(self) -> Self: ...

    @abstractmethod
    async def close(self) -> None: ...

    @abstractmethod
    async def abandon(self) -> None:
        """Close without waiting for the broker. Raises nothing."""

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        elif isinstance(error, Exception):
            with contextlib.suppress(SulinaError):
                await self.close()
        else:
            await self.abandon()


def closed_error(what: str) -> Closed:
    """The error for calls on a closed client, producer or consumer."""
    return Closed(f"the {what} is closed: open a new one")
