"""A broker process as a test sees it: started, killed, stopped, started again on the same port."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

_PATIENCE = 30.0


class BrokerProcess:
    """One data folder and one port, and at most one process that serves them."""

    def __init__(self, forker: asyncio.subprocess.Process, folder: Path, log: Path) -> None:
        self._forker = forker
        self.folder = folder
        self.log = log
        self.port = 0
        self.pid = 0

    @property
    def url(self) -> str:
        return f"sulina://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start it and wait until it takes connections; the one before must be dead or dying."""
        await self.begin()
        await self.ready()

    async def begin(self) -> None:
        """Start it and wait only until there is a process."""
        assert self._forker.stdin is not None
        order = {"folder": str(self.folder / "data"), "port": self.port}
        self._forker.stdin.write(json.dumps(order).encode() + b"\n")
        self.pid = 0
        self.pid = (await self._hear("born"))["pid"]

    async def ready(self) -> None:
        """Wait until it takes connections."""
        self.port = (await self._hear("ready"))["port"]

    def kill(self) -> None:
        """Kill it without a warning."""
        os.kill(self.pid, signal.SIGKILL)

    async def _hear(self, wanted: str) -> dict[str, Any]:
        assert self._forker.stdout is not None
        while True:
            line = await asyncio.wait_for(self._forker.stdout.readline(), _PATIENCE)
            heard: dict[str, Any] = json.loads(line) if line else {"state": "failed"}
            assert heard["state"] != "failed", self.log.read_text()[-4000:]
            # What is left of processes that were killed since is no news.
            if heard["state"] == wanted and heard["pid"] == (self.pid or heard["pid"]):
                return heard


@asynccontextmanager
async def broker_process(folder: Path) -> AsyncIterator[BrokerProcess]:
    """A broker process with its data under ``folder``, not started yet; dead when left."""
    log = folder / "broker.log"
    forker = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.faults.fork_server",
        str(log),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        cwd=Path(__file__).parents[2],
    )
    try:
        yield BrokerProcess(forker, folder, log)
    finally:
        assert forker.stdin is not None
        with suppress(ConnectionError):
            forker.stdin.close()
        await asyncio.wait_for(forker.wait(), _PATIENCE)
