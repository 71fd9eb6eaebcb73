"""A question before something is gone for good."""

from __future__ import annotations

import sys

import click

from sulina.cli.failures import ExitCode
from sulina.cli.settings import Settings


def confirm(settings: Settings, question: str, *, yes: bool) -> None:
    """Ask, if a person is there to answer. Anything but yes ends the command with exit code 1."""
    if yes or settings.json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    if not click.confirm(question, err=True):
        click.echo("sulina: nothing was deleted", err=True)
        click.get_current_context().exit(ExitCode.FAILED)
