"""A server of HTTP that stands before another one and spoils some of what passes.

Requests are forwarded as they came, signatures and all.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Final, Self

from aiohttp import ClientSession, TCPConnector, web
from yarl import URL

from tests.support.faulty_proxy import Fault, FaultyProxy, Seen

_LARGEST: Final = 1 << 30
_HOP: Final = ("connection", "expect", "keep-alive", "transfer-encoding")


@dataclass(slots=True)
class FaultyHttp(FaultyProxy):
    """Whoever is to be harmed dials ``url``. Busy is 503."""

    _ending: asyncio.Event = field(default_factory=asyncio.Event)
    _runner: web.AppRunner | None = None
    _session: ClientSession | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        application = web.Application(client_max_size=_LARGEST)
        application.router.add_route("*", "/{path:.*}", self._serve)
        self._runner = web.AppRunner(application, shutdown_timeout=0, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.port = int(self._runner.addresses[0][1])
        self._session = ClientSession(connector=TCPConnector(limit=0), auto_decompress=False)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._runner is not None and self._session is not None
        self._ending.set()
        await self._runner.cleanup()
        await self._session.close()

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        seen = Seen(request.method, request.raw_path)
        body = await request.read()
        match fault := await self.fault_of(seen):
            case Fault.BUSY:
                return web.Response(status=503, text="slow down")
            case Fault.CUT:
                return _cut(request)
            case Fault.SILENT:
                await self._ending.wait()
                return _cut(request)
        answer = await self._forward(request, body)
        self.done.append(seen)
        if fault is Fault.LOST:
            return _cut(request)
        if fault is Fault.TORN:
            return await _tear(request, answer)
        return answer

    async def _forward(self, request: web.Request, body: bytes) -> web.Response:
        assert self._session is not None
        kept = {name: v for name, v in request.headers.items() if name.lower() not in _HOP}
        async with self._session.request(
            request.method,
            URL(f"http://127.0.0.1:{self.to_port}{request.raw_path}", encoded=True),
            data=body or None,
            headers=kept,
            skip_auto_headers=("Accept-Encoding", "Content-Type", "User-Agent"),
            allow_redirects=False,
        ) as answer:
            content = await answer.read()
            headers = answer.headers.copy()
            for name in _HOP:
                headers.popall(name, None)
            if request.method != "HEAD":
                headers.popall("Content-Length", None)
            return web.Response(status=answer.status, headers=headers, body=content)


def _cut(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def _tear(request: web.Request, answer: web.Response) -> web.StreamResponse:
    """Send half of the body, and end the connection."""
    assert isinstance(answer.body, bytes)
    part = web.StreamResponse(status=answer.status, headers=answer.headers)
    part.content_length = len(answer.body)
    await part.prepare(request)
    await part.write(answer.body[: len(answer.body) // 2])
    return _cut(request)
