"""The command ``sulina top``."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import click

from sulina.cli.command import CliCommand
from sulina.cli.output import console, write_json
from sulina.cli.running import connected, run
from sulina.cli.settings import CliSettings

if TYPE_CHECKING:
    from rich.live import Live

    from sulina.cli.top.view import Seen, View
    from sulina.operations.client import AdminClient


@click.command(
    cls=CliCommand,
    examples=["sulina top", "sulina top --interval 5", "sulina top --once", "sulina top --json"],
)
@click.option("--once", is_flag=True, help="Print everything once, and end.")
@click.option(
    "--interval",
    type=click.FloatRange(min=0.5),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="Time between updates.",
)
def top(settings: CliSettings, once: bool, interval: float) -> None:
    """Watch brokers, the busiest topics and subscriptions that need attention.

    Keys: s sorts by the next column, / filters topics, the arrows select one and enter shows its
    subscriptions, esc goes back, p pauses, q leaves. If standard output is no terminal, it prints
    once.
    """
    live = not (once or settings.json) and sys.stdin.isatty() and sys.stdout.isatty()
    run(_watch(settings, interval) if live else _print(settings))


async def _print(settings: CliSettings) -> None:
    from sulina.cli.top.screen import drawn
    from sulina.cli.top.view import View

    async with connected(settings) as client:
        seen = await _look(client.admin, View())
    if settings.json:
        write_json({"overview": seen.overview, "attention": seen.attention})
    else:
        console().print(drawn(seen, View()))


async def _look(admin: AdminClient, view: View) -> Seen:
    from sulina.cli.top.view import Seen

    overview, attention = await asyncio.gather(admin.overview.show(), admin.overview.attention())
    rows = await admin.subscriptions.list(view.topic) if view.topic else ()
    return Seen(overview, attention, rows)


async def _watch(settings: CliSettings, interval: float) -> None:
    from rich.live import Live

    from sulina.cli.top.view import View

    async with connected(settings) as client:
        screen = console()
        with Live(console=screen, screen=True, auto_refresh=False) as live:
            await _Watching(client.admin, live, View()).run(interval)


class _Watching:
    """Redraws after each key and each answer."""

    def __init__(self, admin: AdminClient, live: Live, view: View) -> None:
        self._admin = admin
        self._live = live
        self._view = view
        self._seen: Seen | None = None
        self._pressed = asyncio.Event()

    async def run(self, interval: float) -> None:
        from sulina.cli.top.keys import pressed

        with pressed(self._press):
            while not self._view.left:
                topic = self._view.topic
                if not self._view.paused or self._seen is None:
                    self._seen = await _look(self._admin, self._view)
                    self._draw()
                await self._next(topic, interval)

    async def _next(self, topic: str, interval: float) -> None:
        """Wait for the next update, or until another topic is opened or the user leaves."""
        end = asyncio.get_running_loop().time() + interval
        while not self._view.left and self._view.topic == topic:
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return
            self._pressed.clear()
            try:
                await asyncio.wait_for(self._pressed.wait(), left)
            except TimeoutError:
                return

    def _press(self, key: str) -> None:
        self._view = self._view.press(key)
        self._pressed.set()
        self._draw()

    def _draw(self) -> None:
        from sulina.cli.top.screen import drawn

        if self._seen is None:
            return
        self._view = self._view.showing(self._view.topics(self._seen.overview))
        height = self._live.console.size.height
        self._live.update(drawn(self._seen, self._view, height), refresh=True)
