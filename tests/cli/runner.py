"""Runs the real command line as a process, with a bound on every wait."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

COMMAND = [sys.executable, "-m", "sulina.cli"]
SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did."""

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


class Sulina:
    """``sulina`` with a broker to talk to."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SULINA_URL": self.url, "COLUMNS": "120"}

    def __call__(self, *arguments: str, input: str | bytes = b"", code: int = 0) -> Ran:
        """Run it to its end, and check its exit code. No command ever shows a traceback."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=input.encode() if isinstance(input, str) else input,
            capture_output=True,
            timeout=SECONDS,
            env=self.environment,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.code == code, ran
        return ran

    def start(
        self, *arguments: str, stdin: Any = subprocess.PIPE, stderr: Any = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """Start it; the caller reads, writes, signals, and gives it to :func:`finish`."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self.environment,
        )


def finish(process: subprocess.Popen[bytes]) -> Ran:
    """Wait for the end of a started command."""
    try:
        stdout, stderr = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    ran = Ran(process.returncode, (stdout or b"").decode(), (stderr or b"").decode())
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran
