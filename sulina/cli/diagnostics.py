"""``sulina ping`` and ``sulina version``: whether a broker answers, and what is installed."""

from __future__ import annotations

import importlib.metadata
import platform
from typing import Final

import click

from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.output import say
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings
from sulina.version import __version__

_PACKAGES: Final = ("uvloop", "lz4", "zstandard")
"""Optional packages that speed up the client or compress messages."""


@click.command(
    cls=CliCommand,
    examples=["sulina ping", "sulina ping --url sulina://broker.example:6655 --json"],
)
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Number of round trips.",
)
def ping(settings: CliSettings, count: int) -> None:
    """Measure the round-trip time to a broker."""

    async def work() -> list[float]:
        async with connected(settings) as client:
            return [await client.ping() * 1000 for _ in range(count)]

    times = sorted(run(work()))
    say(
        settings,
        f"{settings.url} answers in {times[len(times) // 2]:.2f} ms "
        f"(from {times[0]:.2f} to {times[-1]:.2f}, {count} times)",
        {"url": settings.url, "count": count, "milliseconds": [round(each, 4) for each in times]},
    )


@click.command(cls=CliCommand, common=JSON_ONLY, examples=["sulina version --json"])
def version(settings: CliSettings) -> None:
    """Show the versions of Sulina, Python and optional packages."""
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
