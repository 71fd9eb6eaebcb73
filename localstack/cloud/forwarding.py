"""A server on this machine that passes requests on to an emulator, unless it answers itself."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from aiohttp import ClientSession, ClientTimeout, web
from aiohttp.typedefs import Middleware

from broker_containers.local_cluster.ports import LOCAL

_MAX_BYTES: Final = 64 << 20
_SECONDS: Final = 60.0
_NOT_PASSED: Final = frozenset({"connection", "content-length", "host", "transfer-encoding"})

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Forwarding:
    """Use as ``async with``, which returns its URL; the port is a free one."""

    routes: Sequence[web.AbstractRouteDef] = ()
    """What it answers itself, set before it is entered."""
    middlewares: Sequence[Middleware] = ()

    def __init__(self, emulator: str) -> None:
        self._emulator = emulator
        self._runner: web.AppRunner | None = None
        self._session: ClientSession | None = None

    async def __aenter__(self) -> str:
        """The URL."""
        app = web.Application(client_max_size=_MAX_BYTES, middlewares=self.middlewares)
        app.add_routes(self.routes)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, LOCAL, 0).start()
        self._session = ClientSession(timeout=ClientTimeout(total=_SECONDS), auto_decompress=False)
        return f"http://{LOCAL}:{self._runner.addresses[0][1]}"

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
        if self._session is not None:
            await self._session.close()

    async def pass_on(self, request: web.Request) -> web.Response:
        """The emulator's answer."""
        assert self._session is not None
        async with self._session.request(
            request.method,
            f"{self._emulator}{request.raw_path}",
            headers=_passed(request.headers),
            data=await request.read(),
        ) as answer:
            return web.Response(
                status=answer.status, body=await answer.read(), headers=_passed(answer.headers)
            )


def _passed(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _NOT_PASSED}
