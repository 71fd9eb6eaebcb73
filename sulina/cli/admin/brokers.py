"""``sulina broker`` and ``sulina cluster``: the brokers of a cluster, and the cluster itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from sulina.cli.admin.storage import cluster_log_level, cluster_storage
from sulina.cli.command import CliGroup, ServerCommand
from sulina.cli.output import (
    columns,
    echo,
    moment,
    plural,
    print_fields,
    print_table,
    say,
    show_rows,
    shown_as_json,
    size,
)
from sulina.cli.params import POSITIVE
from sulina.cli.progress import Progress
from sulina.cli.running import ask, connected, run
from sulina.cli.settings import CliSettings
from sulina.errors import Refused, Retriable, UnknownOutcome
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sulina.operations.cluster import BrokerRow, ReportedLoad, ResourceUsage

_BROKER_COLUMNS: Final = columns(
    "broker", "mode", "leads", "topics", "url", "http", "labels", "version"
)
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
    """Describe the cluster, and rebuild lost metadata."""


def _mark_leader(row: BrokerRow) -> dict[str, Any]:
    return {"leads": "*" if row.leader else ""}


@broker.command("list", examples=["sulina broker list", "sulina broker list --json"])
def broker_list(settings: CliSettings) -> None:
    """List the live brokers, and how many topics each serves."""
    rows = ask(settings, lambda admin: admin.brokers.list())
    nothing = "there are no live brokers"
    show_rows(settings, rows, _BROKER_COLUMNS, nothing=nothing, readable=_mark_leader)


@broker.command("describe", examples=["sulina broker describe broker-1"])
@click.argument("name", metavar="BROKER")
@click.option("--topics", is_flag=True, help="Also list its topics, up to 1,000.")
def broker_describe(settings: CliSettings, name: str, topics: bool) -> None:
    """Show a broker's addresses, and its latest load report."""
    found = ask(settings, lambda admin: admin.brokers.describe(name))
    if shown_as_json(settings, found):
        return
    fields = {
        field: value
        for field, value in plain(found).items()
        if field not in ("owns", "load", "started_us")
    }
    print_fields({**fields, "started": moment(found.started_us), **_load_fields(found.load)})
    if topics:
        for topic in found.owns:
            echo(topic)


def _load_fields(load: ReportedLoad | None) -> dict[str, Any]:
    if load is None:
        return {"load": "not reported yet"}
    fields = {
        field: value
        for field, value in plain(load).items()
        if field not in ("resources", "wall_us")
    }
    return {
        "load": {"reported": moment(load.wall_us), **fields},
        "resources": _resource_fields(load.resources),
    }


def _resource_fields(resources: Mapping[str, ResourceUsage]) -> dict[str, str]:
    """Usage and limit of each resource; those without a limit are left out."""
    fields = {}
    for name, found in resources.items():
        used, limit = found.used, found.limit
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
@click.option("--reason", help="Reason to record with the change.")
@click.option("--no-wait", is_flag=True, help="Return before its topics have moved.")
@click.option(
    "--wait-seconds",
    type=POSITIVE,
    default=600.0,
    show_default=True,
    help="Maximum time to wait, in seconds.",
)
def broker_drain(
    settings: CliSettings, name: str, reason: str | None, no_wait: bool, wait_seconds: float
) -> None:
    """Move all topics of a broker to others, and assign it no new ones.

    Clients follow their topics without an error. The broker stays in the cluster, without topics,
    until it is stopped or `sulina broker activate` is run.
    """
    moved = run(_drain(settings, name, reason, None if no_wait else wait_seconds))
    if moved is None:
        say(settings, f"draining {name}", {"broker": name, "mode": "draining"})
    else:
        say(
            settings,
            f"drained {name}: {plural(moved, 'topic')} moved",
            {"broker": name, "mode": "draining", "moved": moved},
        )


async def _drain(
    settings: CliSettings, name: str, reason: str | None, seconds: float | None
) -> int | None:
    """Return how many topics moved; None if ``seconds`` is None, which does not wait."""
    async with connected(settings) as client:
        await client.admin.brokers.drain(name, reason=reason or "")
        if seconds is None:
            return None
        before: int | None = None
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        left = 0
        with Progress(settings, f"draining {name}", None) as progress:
            while loop.time() < end:
                try:
                    found = await client.admin.brokers.describe(name)
                except (Retriable, UnknownOutcome):
                    # The broker that answered has stopped: the client connects to another.
                    await asyncio.sleep(_LOOK_SECONDS)
                    continue
                left = found.topics
                before = left if before is None else max(before, left)
                if not left:
                    return before
                progress.show(before - left, f"{plural(left, 'topic')} left", total=before)
                await asyncio.sleep(_LOOK_SECONDS)
    raise Refused(
        f"{name} still has {plural(left, 'topic')} after {seconds:g} s, and draining continues: "
        "`sulina balance show` shows the reasons, `sulina broker activate` cancels it"
    )


@broker.command("activate", examples=["sulina broker activate broker-2"])
@click.argument("name", metavar="BROKER")
@click.option("--reason", help="Reason to record with the change.")
def broker_activate(settings: CliSettings, name: str, reason: str | None) -> None:
    """Assign topics to a broker again, after `sulina broker drain`."""
    done = ask(settings, lambda admin: admin.brokers.activate(name, reason=reason or ""))
    say(settings, f"activated {name}: it can own topics again", done)


@cluster.command("describe", examples=["sulina cluster describe", "sulina cluster describe --json"])
def cluster_describe(settings: CliSettings) -> None:
    """Show the leader, the brokers, and how many topics are served, waiting or moving."""
    found = ask(settings, lambda admin: admin.cluster.describe())
    if shown_as_json(settings, found):
        return
    fields = {field: value for field, value in plain(found).items() if field != "brokers"}
    print_fields({**fields, "leader": found.leader or "none at the moment"})
    print_table([{**plain(row), **_mark_leader(row)} for row in found.brokers], _BROKER_COLUMNS)


cluster.add_command(cluster_storage)
cluster.add_command(cluster_log_level)
