"""A stream of messages from one member: whole lines of JSON, however the bytes arrive.

(etcd3-py has a reader for these, which loses messages that arrive together.)
"""

from __future__ import annotations

import asyncio
from collections import deque

import aiohttp

from sulina.metadata.etcd import answers, failures
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import BROKEN, Failure
from sulina.metadata.etcd.horizon import Horizon
from sulina.metadata.etcd.settings import Endpoint

MAX_LINE_BYTES = 64 << 20
"""Far more than one message can have."""


class Silent(Failure):
    """Nothing came in the time that was allowed."""


class Lines:
    """Cuts bytes into lines, of which no one may have more than ``MAX_LINE_BYTES``."""

    __slots__ = ("_held", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in ``chunk``; empty ones are left out. Raises ``ValueError``."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._held += len(first)
        if self._held > MAX_LINE_BYTES:
            raise ValueError("a line without end")
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts, self._held = [others[-1]], len(others[-1])
        return [line for line in lines if line.strip()]


class Stream:
    """An open stream; whoever opened it closes it."""

    def __init__(
        self, endpoint: Endpoint, response: aiohttp.ClientResponse, horizon: Horizon
    ) -> None:
        self._endpoint = endpoint
        self._response = response
        self._horizon = horizon
        self._lines = Lines()
        self._ready: deque[bytes] = deque()

    async def next(self, seconds: float) -> Json:
        """The next message. Raises ``Silent`` after ``seconds``, and ``Failure`` at the end.

        A wait that is given up loses nothing.
        """
        while not self._ready:
            try:
                async with asyncio.timeout(seconds):
                    chunk = await self._response.content.readany()
            except TimeoutError:
                reason = f"etcd at {self._endpoint} was silent for {seconds:g} s"
                raise Silent(reason, may_have_happened=True) from None
            except BROKEN as error:
                raise failures.of_transport(error, self._endpoint) from error
            if not chunk:
                reason = f"etcd at {self._endpoint} ended a stream"
                raise Failure(reason, may_have_happened=True)
            try:
                self._ready.extend(self._lines.feed(chunk))
            except ValueError as error:
                reason = f"etcd at {self._endpoint} sent {error}"
                raise Failure(reason, may_have_happened=True) from None
        message = answers.read(self._ready.popleft(), self._endpoint)
        self._horizon.admit(message.get("header", {}), 0, self._endpoint)
        return message
