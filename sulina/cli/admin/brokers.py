"""``sulina broker`` and ``sulina cluster``: the brokers of a cluster, and the cluster itself."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import click

from sulina.cli.command import CliGroup, ServerCommand
from sulina.cli.output import (
    moment,
    plural,
    print_fields,
    print_table,
    say,
    show_rows,
    size,
    write_json,
)
from sulina.cli.progress import Progress
from sulina.cli.running import ask, connected, given, run
from sulina.cli.settings import CliSettings
from sulina.errors import Refused, Retriable, UnknownOutcome

_BROKER_COLUMNS: Final = {
    "broker": "broker",
    "mode": "mode",
    "leads": "leads",
    "topics": "topics",
    "url": "url",
    "http": "http",
    "labels": "labels",
    "version": "version",
}
_LOOK_SECONDS: Final = 0.2


@click.group(
    cls=CliGroup,
    server_commands=[ServerCommand("broker.run", "Run one broker of a cluster.")],
)
def broker() -> None:
    """Run, list, describe, drain and activate brokers."""


@click.group(
    cls=CliGroup,
    server_commands=[
        ServerCommand(
            "cluster.rebuild",
            "Rebuild topics after the metadata was lost, or restored from a backup.",
        )
    ],
)
def cluster() -> None:
    """Look at the cluster as a whole, and rebuild it."""


def _broker_rows(brokers: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For a table: who leads is marked."""
    return [{**row, "leads": "*" if row["leader"] else ""} for row in brokers]


@broker.command("list", examples=["sulina broker list", "sulina broker list --json"])
@click.pass_obj
def broker_list(settings: CliSettings) -> None:
    """List the brokers that live, with how many topics each serves."""
    rows = ask(settings, "broker.list")
    if settings.json:
        write_json(rows)
        return
    show_rows(settings, _broker_rows(rows), _BROKER_COLUMNS, nothing="no broker lives")


@broker.command("describe", examples=["sulina broker describe broker-1"])
@click.argument("name", metavar="BROKER")
@click.option("--topics", is_flag=True, help="The names of its topics as well, up to 1,000.")
@click.pass_obj
def broker_describe(settings: CliSettings, name: str, topics: bool) -> None:
    """Show a broker: where it is, and its load as it told it last."""
    found = ask(settings, "broker.describe", broker=name)
    if settings.json:
        write_json(found)
        return
    owns, load, started = found.pop("owns"), found.pop("load"), found.pop("started_us")
    print_fields({**found, "started": moment(started), **_load_fields(load)})
    if topics:
        for topic in owns:
            click.echo(topic)


def _load_fields(load: dict[str, Any] | None) -> dict[str, Any]:
    if load is None:
        return {"load": "not told yet"}
    resources, told = load.pop("resources"), load.pop("wall_us")
    return {"load": {"told": moment(told), **load}, "resources": _resource_fields(resources)}


def _resource_fields(resources: dict[str, Any]) -> dict[str, str]:
    """What is used, of how much; what has no limit here is left out."""
    fields = {}
    for name, found in resources.items():
        used, limit = found["used"], found["limit"]
        if limit:
            shown = (
                f"{used:.2f} of {limit:.2f}" if name == "cpu" else f"{size(used)} of {size(limit)}"
            )
            fields[name] = shown
    return fields


@broker.command(
    "drain",
    examples=[
        "sulina broker drain broker-2 --reason 'a new disk'",
        "sulina broker drain broker-2 --no-wait",
    ],
)
@click.argument("name", metavar="BROKER")
@click.option("--reason", help="Noted with it, for those who wonder.")
@click.option("--no-wait", is_flag=True, help="Don't wait until its topics have moved.")
@click.option(
    "--wait-seconds",
    type=click.FloatRange(min=0, min_open=True),
    default=600.0,
    show_default=True,
    help="How long to wait at most.",
)
@click.pass_obj
def broker_drain(
    settings: CliSettings, name: str, reason: str | None, no_wait: bool, wait_seconds: float
) -> None:
    """Move all topics of a broker to others, and give it no new ones.

    Its clients follow the topics without an error. It stays a member of the cluster until it is
    stopped, and empty until `sulina broker activate`.
    """
    moved = run(_drain(settings, name, reason, None if no_wait else wait_seconds))
    if moved is None:
        say(settings, f"{name} is being emptied", {"broker": name, "mode": "draining"})
    else:
        say(
            settings,
            f"{name} is empty: {plural(moved, 'topic')} moved",
            {"broker": name, "mode": "draining", "moved": moved},
        )


async def _drain(
    settings: CliSettings, name: str, reason: str | None, seconds: float | None
) -> int | None:
    """Returns how many topics moved; None if nobody waits for it."""
    async with connected(settings) as client:
        await client.admin("broker.drain", given({"broker": name, "reason": reason}))
        if seconds is None:
            return None
        before: int | None = None
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        left = 0
        with Progress(settings, f"emptying {name}", None) as progress:
            while loop.time() < end:
                try:
                    found = await client.admin("broker.describe", {"broker": name})
                except (Retriable, UnknownOutcome):
                    # A broker that answered has gone meanwhile: another one is asked.
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                left = found["topics"]
                before = left if before is None else max(before, left)
                if not left:
                    return before
                progress.show(before - left, f"{plural(left, 'topic')} to go", total=before)
                await asyncio.sleep(_LOOK_SECONDS)
    raise Refused(
        f"{name} still has {plural(left, 'topic')} after {seconds:g} s, and goes on giving them "
        "away: `sulina balance show` says what holds it up, `sulina broker activate` calls it off"
    )


@broker.command("activate", examples=["sulina broker activate broker-2"])
@click.argument("name", metavar="BROKER")
@click.option("--reason", help="Noted with it, for those who wonder.")
@click.pass_obj
def broker_activate(settings: CliSettings, name: str, reason: str | None) -> None:
    """Let a broker have topics again, after `sulina broker drain`."""
    done = ask(settings, "broker.activate", broker=name, reason=reason)
    say(settings, f"{name} may have topics", done)


@cluster.command("describe", examples=["sulina cluster describe", "sulina cluster describe --json"])
@click.pass_obj
def cluster_describe(settings: CliSettings) -> None:
    """Show the leader, the brokers, and how many topics are served, wait or move."""
    found = ask(settings, "cluster.describe")
    if settings.json:
        write_json(found)
        return
    brokers = found.pop("brokers")
    print_fields({**found, "leader": found["leader"] or "nobody at the moment"})
    print_table(_broker_rows(brokers), _BROKER_COLUMNS)
