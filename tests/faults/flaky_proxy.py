"""A network that loses connections in all the ways there are.

Each connection gets its fate when it is made: after a random while it is cut, stalls for good or
for some time, in one direction or in both, or one side of it is closed. Bytes that did get
through are never altered.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

_CHUNK = 16 << 10


class FlakyProxy:
    """Forwards to a port of this machine. Use as ``async with``; clients dial ``url``."""

    def __init__(self, to_port: int, rng: random.Random) -> None:
        self._to_port = to_port
        self._rng = rng
        self._server: asyncio.Server | None = None
        self._links: set[_Link] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._healthy = False
        self.harmed = 0
        """Connections that met their fate."""

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"sulina://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def connections(self) -> int:
        """How many are open."""
        return len(self._links)

    async def __aenter__(self) -> FlakyProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=_CHUNK)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut_all()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def heal(self) -> None:
        """Cut everything once more; what is connected from now on stays connected."""
        self._healthy = True
        self.cut_all()

    def cut_all(self) -> None:
        for link in self._links:
            link.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        far = await asyncio.open_connection("127.0.0.1", self._to_port, limit=_CHUNK)
        link = _Link(_Direction(reader, far[1]), _Direction(far[0], writer))
        self._links.add(link)
        # Some are harmed at once, in the middle of the first commands.
        after = self._rng.expovariate(2)
        fate = None if self._healthy else asyncio.create_task(self._harm(link, after))
        try:
            await link.run()
        finally:
            self._links.discard(link)
            if fate is not None:
                fate.cancel()
                await asyncio.wait([fate])

    async def _harm(self, link: _Link, after: float) -> None:
        await asyncio.sleep(after)
        self.harmed += 1
        directions = self._rng.choice(
            [[link.there], [link.back], [link.there, link.back]],
        )
        match self._rng.randrange(4):
            case 0:
                link.cut()
            case 1:
                directions[0].close()
            case 2:
                for direction in directions:
                    direction.stall()
            case _:
                for direction in directions:
                    direction.stall()
                await asyncio.sleep(self._rng.uniform(0.05, 2.0))
                for direction in directions:
                    direction.go_on()


class _Direction:
    """One half of a connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._closed = False

    async def run(self) -> None:
        with suppress(OSError):
            while data := await self._reader.read(_CHUNK):
                await self._flowing.wait()
                if not self._closed:
                    self.writer.write(data)
                    await self.writer.drain()
            self.close()

    def stall(self) -> None:
        """Nothing gets through any more, and nobody is told."""
        self._flowing.clear()

    def go_on(self) -> None:
        self._flowing.set()

    def close(self) -> None:
        """The receiver sees the end; the other half stays open."""
        self._closed = True
        with suppress(OSError):
            self.writer.write_eof()


class _Link:
    """Both halves."""

    def __init__(self, there: _Direction, back: _Direction) -> None:
        self.there = there
        self.back = back

    async def run(self) -> None:
        """Forward until both halves have ended."""
        try:
            async with asyncio.TaskGroup() as halves:
                halves.create_task(self.there.run())
                halves.create_task(self.back.run())
        finally:
            self.cut()

    def cut(self) -> None:
        """End both halves at once; what was on its way is lost."""
        for direction in (self.there, self.back):
            direction.writer.transport.abort()
            direction.go_on()
