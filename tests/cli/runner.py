"""Runs the command line as a process; and the broker through the client library, to check it."""

from __future__ import annotations

import asyncio
import io
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sulina
from sulina.cli.app import run
from sulina.model import Start
from tests.support.shell import CommandResult

COMMAND = [sys.executable, "-m", "sulina.cli"]
SECONDS = 60.0
_STREAMS = ("stdin", "stdout", "stderr")

_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload([__name__])


class SulinaCommand:
    """The command ``sulina`` with the URL of a broker."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SULINA_URL": self.url, "COLUMNS": "120"}

    def __call__(self, *arguments: str, input: str | bytes = b"", code: int = 0) -> CommandResult:
        """Run it, and check its exit code. No command shows a traceback.

        Its process is forked from one that has loaded the command line: loading takes longer than
        most commands do.
        """
        with tempfile.TemporaryDirectory() as name:
            stdin, stdout, stderr = (Path(name, stream) for stream in _STREAMS)
            stdin.write_bytes(input.encode() if isinstance(input, str) else input)
            process = _forking.Process(
                target=_run, args=(arguments, name, os.getcwd(), self.environment)
            )
            process.start()
            process.join(SECONDS)
            if process.exitcode is None:
                process.kill()
                raise TimeoutError(f"{arguments}: {stderr.read_text()}")
            ran = CommandResult(process.exitcode, stdout.read_text(), stderr.read_text())
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.code == code, ran
        return ran

    def start(
        self,
        *arguments: str,
        stdin: Any = subprocess.PIPE,
        stdout: Any = subprocess.PIPE,
        stderr: Any = subprocess.PIPE,
    ) -> subprocess.Popen[bytes]:
        """Start it; the caller passes the process to :func:`finish` in the end."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            env=self.environment,
        )


def _run(arguments: Sequence[str], streams: str, folder: str, environment: dict[str, str]) -> None:
    """Run a command in this process, with files for standard input and output."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    for number, name in enumerate(_STREAMS):
        file = os.open(Path(streams, name), os.O_RDWR | os.O_CREAT)
        os.dup2(file, number)
        os.close(file)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, closefd=False))  # multiprocessing has closed it
    sys.exit(run(arguments))


def finish(process: subprocess.Popen[bytes]) -> CommandResult:
    """Wait for a started command to end."""
    try:
        stdout, stderr = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    ran = CommandResult(process.returncode, (stdout or b"").decode(), (stderr or b"").decode())
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran


class BlockingClient:
    """Blocking calls, each over its own connection."""

    def __init__(self, url: str) -> None:
        self._url = url

    def publish(self, topic: str, *payloads: str, keys: list[str] | None = None) -> None:
        async def work() -> None:
            async with sulina.connect(self._url) as client, client.producer(topic) as producer:
                await producer.send_many([each.encode() for each in payloads], keys=keys)

        asyncio.run(work())

    def read(self, topic: str) -> list[str]:
        """All payloads of an unpartitioned topic."""

        async def work() -> list[str]:
            found: list[str] = []
            start, at_end = Start.earliest(), False
            async with sulina.connect(self._url) as client:
                while not at_end:
                    result = await client.read(topic, start)
                    found += [message.text() for batch in result for message in batch]
                    start, at_end = Start.offset(result.next_offset), result.at_end
            return found

        return asyncio.run(work())

    def wait_for(self, topic: str, count: int) -> None:
        """Wait until the topic has this many messages."""

        async def work() -> None:
            async with (
                sulina.connect(self._url) as client,
                client.consumer(topic, "waiting", start=Start.earliest()) as consumer,
            ):
                for _ in range(count):
                    await consumer.receive(timeout=60)

        asyncio.run(work())

    def admin(self, method: str, **arguments: Any) -> Any:
        async def work() -> Any:
            async with sulina.connect(self._url) as client:
                return await client.admin(method, arguments)

        return asyncio.run(work())

    def topics(self) -> list[str]:
        return [row["topic"] for row in self.admin("topic.list")]

    def subscriptions(self, topic: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.admin("subscription.list", topic=topic)
        return found
