"""``sulina whoami``: who the caller is to a broker."""

from __future__ import annotations

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import moment, say
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings


@click.command(cls=CliCommand, examples=["sulina whoami", "sulina whoami --json"])
def whoami(settings: CliSettings) -> None:
    """Show who you are to the broker, and your rights."""
    found = ask(settings, lambda admin: admin.principals.whoami())
    rights = ", ".join((*found.grants, *found.denied)) or "no rights"
    until = f", until {moment(found.expires_us)}" if found.expires_us else ""
    say(settings, f"{found.principal}: {rights}{until}", found)
