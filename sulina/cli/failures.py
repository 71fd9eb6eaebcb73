"""Errors as people and scripts see them: a sentence and an exit code."""

from __future__ import annotations

import json
import os
import sys
import traceback
from enum import IntEnum
from typing import IO, Any, Final

import click

import sulina
from sulina.errors import SulinaError, Unavailable
from sulina.runtime.terminal import visible


class ExitCode(IntEnum):
    """Exit codes of the process."""

    FINE = 0
    FAILED = 1
    USAGE = 2
    NO_BROKER = 3
    INTERRUPTED = 130


EXIT_CODES: Final = {
    ExitCode.FINE: "success",
    ExitCode.FAILED: "failure; the reason is on standard error",
    ExitCode.USAGE: "invalid command line",
    ExitCode.NO_BROKER: "no broker could be reached",
    ExitCode.INTERRUPTED: "interrupted with Ctrl-C or SIGTERM",
}


class Failed(click.ClickException):
    """The operation failed for a known reason."""

    exit_code = ExitCode.FAILED

    def __init__(self, error: Exception, *, as_json: bool) -> None:
        super().__init__(sentence(error))
        # Scripts see the public error classes, not their private subclasses.
        self._kind = next(
            (kind.__name__ for kind in type(error).__mro__ if hasattr(sulina, kind.__name__)),
            type(error).__name__,
        )
        self._as_json = as_json

    def show(self, file: IO[Any] | None = None) -> None:
        """Write the sentence, or with ``--json`` an object, to standard error."""
        if debugging():
            traceback.print_exc()
        text = f"sulina: {self.message}"
        if self._as_json:
            text = json.dumps({"error": self._kind, "message": self.message})
        click.echo(visible(text), file=file or sys.stderr)


class NoBroker(Failed):
    """No broker could be reached."""

    exit_code = ExitCode.NO_BROKER


def failure(error: Exception, *, as_json: bool) -> Failed:
    """The error as the command line reports it."""
    kind = NoBroker if isinstance(error, Unavailable) else Failed
    return kind(error, as_json=as_json)


def sentence(error: Exception) -> str:
    """The error message for people."""
    if isinstance(error, SulinaError):
        return str(error) or type(error).__name__
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return (
        f"unexpected error ({type(error).__name__}: {error}): "
        "run the command again with SULINA_DEBUG=1 to see the traceback, and report it"
    )


def debugging() -> bool:
    """Whether to print tracebacks."""
    return os.environ.get("SULINA_DEBUG", "") not in ("", "0")
