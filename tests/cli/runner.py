"""Runs the command line as a process, with a timeout on every wait."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tests.support.shell import CommandResult

COMMAND = [sys.executable, "-m", "sulina.cli"]
SECONDS = 60.0


class SulinaCommand:
    """The command ``sulina`` with the URL of a broker."""

    def __init__(self, url: str) -> None:
        self.url = url

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "SULINA_URL": self.url, "COLUMNS": "120"}

    def __call__(self, *arguments: str, input: str | bytes = b"", code: int = 0) -> CommandResult:
        """Run it, and check its exit code. No command shows a traceback."""
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=input.encode() if isinstance(input, str) else input,
            capture_output=True,
            timeout=SECONDS,
            env=self.environment,
            check=False,
        )
        ran = CommandResult(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in ran.stderr, ran.stderr
        assert ran.code == code, ran
        return ran

    def start(
        self, *arguments: str, stdin: Any = subprocess.PIPE, stderr: Any = subprocess.PIPE
    ) -> subprocess.Popen[bytes]:
        """Start it; the caller passes the process to :func:`finish` in the end."""
        return subprocess.Popen(
            [*COMMAND, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=self.environment,
        )


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
