"""Command lines of ``sulina``, one after the other in one process of their own.

For tests that run many: loading Python and the command line takes longer than most commands do. Run
as a script it is that process: a line of JSON on standard input is a command, one on standard
output what it did.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Any, Self

SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        return self.stdout.splitlines()

    def json(self) -> Any:
        """All of standard output as one JSON document."""
        return json.loads(self.stdout)

    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.lines()]


class Shell:
    """Use as ``with``. One command at a time; the event loop of a test goes on meanwhile."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "COLUMNS": "120"},
        )
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()

    async def __call__(self, *arguments: str, input: str = "", code: int = 0) -> CommandResult:
        """Run a command to its end, and check its exit code. None ever shows a traceback."""
        line = json.dumps({"arguments": arguments, "input": input}).encode() + b"\n"
        ran = await asyncio.wait_for(asyncio.to_thread(self._run, line), SECONDS)
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.code == code, ran
        return ran

    def _run(self, line: bytes) -> CommandResult:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        process.stdin.write(line)
        process.stdin.flush()
        return CommandResult(**json.loads(process.stdout.readline()))


class _Caught:
    """What is written to a file descriptor, by whatever way, while this is entered."""

    def __init__(self, name: str, number: int) -> None:
        self._name = name
        self._number = number
        self.text = ""

    def __enter__(self) -> Self:
        self._file = tempfile.TemporaryFile()
        os.dup2(self._file.fileno(), self._number)
        stream = io.FileIO(self._number, "w", closefd=False)
        setattr(sys, self._name, io.TextIOWrapper(stream, write_through=True))
        return self

    def __exit__(self, *exc: object) -> None:
        getattr(sys, self._name).flush()
        self._file.seek(0)
        self.text = self._file.read().decode()
        self._file.close()


def _serve() -> None:
    from sulina.cli.app import run

    commands = sys.stdin
    with os.fdopen(os.dup(1), "w") as answers:
        for line in commands:
            wanted = json.loads(line)
            sys.stdin = io.TextIOWrapper(io.BytesIO(wanted["input"].encode()))
            with _Caught("stdout", 1) as out, _Caught("stderr", 2) as err:
                code = int(run(wanted["arguments"]))
            answers.write(json.dumps({"code": code, "stdout": out.text, "stderr": err.text}) + "\n")
            answers.flush()


if __name__ == "__main__":
    sys.path[0] = os.getcwd()
    _serve()
