"""A load balancer: each connection goes to the next broker."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress


class Gateway:
    """Use as ``async with``. ``ports`` tells the ports behind it, at any time."""

    def __init__(self, ports: Callable[[], Sequence[int]]) -> None:
        self._ports = ports
        self._turn = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.url = ""

    async def __aenter__(self) -> Gateway:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            for _ in range(8):
                ports = self._ports()
                self._turn += 1
                with suppress(OSError):
                    there = await asyncio.open_connection(
                        "127.0.0.1", ports[self._turn % len(ports)]
                    )
                    await _relay(reader, writer, *there)
                    return
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._connections.discard(task)


async def _relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    """Both ways, until one side ends."""
    ways = [
        asyncio.create_task(_pass(reader, far_writer)),
        asyncio.create_task(_pass(far_reader, writer)),
    ]
    try:
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        far_writer.close()


async def _pass(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
