"""A small HTTP port for metrics and health: GET and HEAD, one request for each connection.

Whoever reaches the port can only read these pages. Connections, the length of a request and the
time that it may take are bounded; a connection over the limit is closed at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_MOST_CONNECTIONS: Final = 32
_MOST_BYTES: Final = 16 << 10
_SECONDS: Final = 10.0
_REASONS: Final = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed"}
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page says."""

    status: int
    type: str
    body: bytes

    def encode(self, *, head: bool) -> bytes:
        """As sent; ``head`` leaves the body out."""
        reason = _REASONS.get(self.status, "Service Unavailable")
        lines = (
            f"HTTP/1.1 {self.status} {reason}",
            f"Content-Type: {self.type}",
            f"Content-Length: {len(self.body)}",
            "Connection: close",
        )
        return "\r\n".join((*lines, "", "")).encode() + (b"" if head else self.body)


Pages = Callable[[str], Awaitable[Answer | None]]
"""The answer for a path; None if there is no such page."""


class HttpPort:
    """Use as ``async with``. Raises ``Refused`` if it can't listen."""

    def __init__(self, pages: Pages, clock: Clock, host: str, port: int) -> None:
        self._pages = pages
        self._clock = clock
        self._place = host, port
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()
        self.port = port

    async def __aenter__(self) -> HttpPort:
        host, port = self._place
        try:
            self._server = await asyncio.start_server(self._accept, host, port, limit=_MOST_BYTES)
        except OSError as error:
            raise Refused(
                f"can't listen on {host}:{port} for metrics ({error.strerror}): choose another "
                "port with --metrics-port, or 0 for none"
            ) from None
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._open:
            task.cancel()
        if self._open:
            await asyncio.wait(self._open)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= _MOST_CONNECTIONS:
            writer.transport.abort()
            return
        task = asyncio.create_task(self._serve(reader, writer), name="metrics-request")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await within(self._clock, _SECONDS, self._answer(reader, writer))
        finally:
            writer.transport.abort()  # what was sent is sent: draining waited for it

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await reader.readuntil(b"\r\n\r\n")
        except asyncio.LimitOverrunError:
            request = b""
        answer = await self._answer_to(request)
        writer.transport.set_write_buffer_limits(0)
        writer.write(answer.encode(head=request.startswith(b"HEAD ")))
        await writer.drain()
        writer.write_eof()
        await reader.read(1)  # until the caller has closed, too

    async def _answer_to(self, request: bytes) -> Answer:
        words = request.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return Answer(400, _PLAIN, b"send an HTTP/1 request with less than 16 KiB of headers\n")
        if words[0] not in (b"GET", b"HEAD"):
            return Answer(405, _PLAIN, b"use GET\n")
        path = words[1].decode("latin-1").partition("?")[0]
        found = await self._pages(path)
        return found or Answer(404, _PLAIN, b"ask for /metrics, /health/live or /health/ready\n")
