"""``sulina ping``: is a broker there, and how far is it?"""

from __future__ import annotations

import click

from sulina.cli.commands import Command
from sulina.cli.output import say
from sulina.cli.running import connected, run
from sulina.cli.settings import Settings


@click.command(
    cls=Command,
    examples=["sulina ping", "sulina ping --url sulina://broker.example:6655 --json"],
)
@click.option(
    "--count",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    help="Ask so many times, one after the other.",
)
@click.pass_obj
def ping(settings: Settings, count: int) -> None:
    """Ask the broker for an answer, and say how long it took."""

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
