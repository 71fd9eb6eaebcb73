"""A stream of messages from one member: whole lines of JSON, however the bytes arrive.

etcd3-py has a reader for these, but it loses messages that arrive together.
"""

from __future__ import annotations

from collections import deque

import aiohttp

from sulina.metadata.etcd import failures
from sulina.metadata.etcd.codec import Json
from sulina.metadata.etcd.failures import BROKEN, MemberFailure
from sulina.metadata.etcd.seen_revision import SeenRevision
from sulina.metadata.etcd.settings import EtcdEndpoint
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

MAX_LINE_BYTES = 64 << 20
"""Far more than one message can have."""


class StreamIdle(MemberFailure):
    """Nothing arrived within the time allowed."""


class LineSplitter:
    """Splits bytes into lines of at most ``MAX_LINE_BYTES``."""

    __slots__ = ("_held", "_parts")

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0

    def add(self, chunk: bytes) -> list[bytes]:
        """The non-empty lines that end in ``chunk``. Raises ``ValueError`` if one is too long."""
        first, *others = chunk.split(b"\n")
        self._parts.append(first)
        self._held += len(first)
        if self._held > MAX_LINE_BYTES:
            raise ValueError(f"a line of more than {MAX_LINE_BYTES} bytes")
        if not others:
            return []
        lines = [b"".join(self._parts), *others[:-1]]
        self._parts, self._held = [others[-1]], len(others[-1])
        return [line for line in lines if line.strip()]


class MessageStream:
    """An open stream. It does not close the response: the caller does."""

    def __init__(
        self,
        endpoint: EtcdEndpoint,
        response: aiohttp.ClientResponse,
        seen: SeenRevision,
        clock: Clock,
    ) -> None:
        self._endpoint = endpoint
        self._response = response
        self._seen = seen
        self._clock = clock
        self._lines = LineSplitter()
        self._ready: deque[bytes] = deque()

    async def next(self, seconds: float) -> Json:
        """The next message. Raises ``StreamIdle`` after ``seconds``, ``MemberFailure`` at the end.

        No message is lost by a timeout.
        """
        while not self._ready:
            try:
                chunk = await within(self._clock, seconds, self._response.content.readany())
            except TimeoutError:
                reason = f"etcd at {self._endpoint} sent nothing for {seconds:g} s"
                raise StreamIdle(reason, may_have_happened=True) from None
            except BROKEN as error:
                raise failures.of_transport(error, self._endpoint) from error
            if not chunk:
                reason = f"etcd at {self._endpoint} ended a stream"
                raise MemberFailure(reason, may_have_happened=True)
            try:
                self._ready.extend(self._lines.add(chunk))
            except ValueError as error:
                reason = f"etcd at {self._endpoint} sent {error}"
                raise MemberFailure(reason, may_have_happened=True) from None
        message = failures.read_answer(self._ready.popleft(), self._endpoint)
        self._seen.admit(message.get("header", {}), 0, self._endpoint)
        return message
