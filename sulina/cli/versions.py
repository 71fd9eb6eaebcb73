"""``sulina version``: what is installed here."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Final

import click

from sulina.cli.commands import JSON_ONLY, Command
from sulina.cli.output import say
from sulina.cli.settings import Settings
from sulina.version import __version__

_PACKAGES: Final = ("uvloop", "lz4", "zstandard")
"""Those that make it faster or smaller if they are there."""


@click.command(cls=Command, common=JSON_ONLY, examples=["sulina version --json"])
@click.pass_obj
def version(settings: Settings) -> None:
    """Show the versions of Sulina, of Python, and of the packages that it can do without."""
    found = {"sulina": __version__, "python": platform.python_version()}
    packages = {name: _version_of(name) for name in _PACKAGES}
    say(
        settings,
        ", ".join(
            f"{name} {number or 'not installed'}" for name, number in {**found, **packages}.items()
        ),
        {**found, **packages},
    )


def _version_of(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
