"""``sulina topic lookup|move|ledgers``: who serves a topic, and where its records are."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from sulina.cli.commands import Command
from sulina.cli.output import print_fields, say, show_rows, write_json
from sulina.cli.params import topic_name
from sulina.cli.progress import Progress
from sulina.cli.running import ask, connected, given, run
from sulina.cli.settings import Settings
from sulina.errors import Retriable, UnknownOutcome

_LOOK_SECONDS: Final = 0.1
_LEDGERS: Final = {
    "id": "ledger",
    "state": "state",
    "first_offset": "first offset",
    "last_offset": "last offset",
    "last_entry": "last entry",
    "bytes": "bytes",
}


@click.command("lookup", cls=Command, examples=["sulina topic lookup /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.pass_obj
def lookup(settings: Settings, name: str) -> None:
    """Show which broker serves a topic; one that nobody serves yet is placed now.

    Of a partitioned topic, name a partition: /default/clicks-part-0.
    """
    found = ask(settings, "topic.lookup", topic=name)
    if settings.json:
        write_json(found)
    else:
        print_fields(found)


@click.command(
    "move",
    cls=Command,
    examples=[
        "sulina topic move /default/orders",
        "sulina topic move /default/orders --to broker-2 --wait",
    ],
)
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.option("--to", "target", metavar="BROKER", help="To this one. [default: the least loaded]")
@click.option("--wait", is_flag=True, help="Until the other broker serves it.")
@click.pass_obj
def move(settings: Settings, name: str, target: str | None, wait: bool) -> None:
    """Let another broker serve a topic. Its clients follow it without an error."""
    done = run(_move(settings, name, target, wait))
    doing = "is now served by" if wait else "moves to"
    say(settings, f"{name} {doing} {done['target']}, from {done['source']}", done)


async def _move(settings: Settings, name: str, target: str | None, wait: bool) -> dict[str, Any]:
    async with connected(settings) as client:
        done: dict[str, Any] = await client.admin(
            "topic.move", given({"topic": name, "broker": target})
        )
        loop = asyncio.get_running_loop()
        end = loop.time() + settings.timeout
        with Progress(settings, f"moving {name}", None) as progress:
            while wait:
                try:
                    found = await client.admin("topic.lookup", {"topic": name})
                    if found["broker"] == done["target"] and not found["moving_to"]:
                        break
                except (Retriable, UnknownOutcome):
                    pass  # it is on its way
                if loop.time() > end:
                    raise Retriable(
                        f"{name} did not arrive in {settings.timeout:g} s: `sulina topic lookup "
                        f"{name}` shows where it is"
                    )
                progress.show(0, f"to {done['target']}")
                await asyncio.sleep(_LOOK_SECONDS)
        return done


@click.command("ledgers", cls=Command, examples=["sulina topic ledgers /default/orders"])
@click.argument("name", metavar="TOPIC", type=topic_name)
@click.pass_obj
def ledgers(settings: Settings, name: str) -> None:
    """Show the ledgers of a topic, in order. One that is open is being written.

    Of a partitioned topic, name a partition: /default/clicks-part-0.
    """
    found = ask(settings, "topic.ledgers", topic=name)
    if settings.json:
        write_json(found)
        return
    click.echo(f"{name} in epoch {found['epoch']}")
    show_rows(settings, found["ledgers"], _LEDGERS, nothing="it has no ledgers yet")
