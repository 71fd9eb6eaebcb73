"""``sulina config``: settings of the brokers that change without a restart."""

from __future__ import annotations

import getpass
import socket

import click

from sulina.cli.command import CliGroup
from sulina.cli.output import columns, echo, moment, say, show_fields, show_rows, write_json
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings
from sulina.errors import NotFound
from sulina.operations.json_types import plain


@click.group(cls=CliGroup)
def config() -> None:
    """Show and change settings of running brokers.

    A value set for one broker overrides a value set for all brokers, which overrides the value
    that the broker was started with.
    """


_of_broker = click.option(
    "--broker", metavar="ID", help="Apply to this broker only. [default: all brokers]"
)


@config.command("list", examples=["sulina config list", "sulina config list --changed --json"])
@click.option("--changed", is_flag=True, help="List only settings that were changed.")
def list_(settings: CliSettings, changed: bool) -> None:
    """List all settings, with their values on the broker that answers."""
    answer = ask(settings, lambda admin: admin.config.list())
    rows = [
        row
        for row in answer.settings
        if not changed or row.cluster is not None or bool(row.brokers)
    ]
    if settings.json:
        write_json({**plain(answer), "settings": rows})
        return
    shown = [
        {**plain(row), "brokers": [f"{one}={value}" for one, value in row.brokers.items()]}
        for row in rows
    ]
    table = columns(
        name="setting",
        text=f"on {answer.broker}",
        source="source",
        brokers="per broker",
        help="description",
    )
    show_rows(settings, shown, table, nothing="no setting was changed")
    for name, reason in answer.ignored.items():
        echo(f"{name} is set but has no effect: {reason}", err=True)


@config.command("get", examples=["sulina config get ledger.roll_bytes"])
@click.argument("name", metavar="SETTING")
def get(settings: CliSettings, name: str) -> None:
    """Show one setting: its value, its source and the values it accepts."""
    answer = ask(settings, lambda admin: admin.config.list())
    found = next((plain(row) for row in answer.settings if row.name == name), None)
    if found is None:
        fixed = next((row for row in answer.fixed if row.name == name), None)
        if fixed is None:
            names = ", ".join(row.name for row in answer.settings)
            raise NotFound(f"there is no setting {name!r}: choose from {names}")
        found = {**plain(fixed), "changes": "only with a restart"}
    show_fields(settings, found)


@config.command(
    "set",
    examples=[
        "sulina config set ledger.roll_bytes 512MiB",
        "sulina config set broker.cache_bytes 2GiB --broker broker-3",
        "sulina config set log.level debug --broker broker-1",
        "sulina config set balance.enabled false",
    ],
)
@click.argument("name", metavar="SETTING")
@click.argument("value", metavar="VALUE")
@_of_broker
def set_(settings: CliSettings, name: str, value: str, broker: str | None) -> None:
    """Change a setting on all brokers, or on one, without a restart. It survives restarts."""
    done = ask(settings, lambda admin: admin.config.set(name, value, broker=broker or "", by=_me()))
    before = "not set" if done.old is None else done.old
    change = f" (was {before})" if done.changed else " already"
    say(settings, f"{name} is {done.new} for {_whose(broker)}{change}", done)


@config.command(
    "unset",
    examples=[
        "sulina config unset ledger.roll_bytes",
        "sulina config unset log.level --broker broker-1",
    ],
)
@click.argument("name", metavar="SETTING")
@_of_broker
def unset(settings: CliSettings, name: str, broker: str | None) -> None:
    """Remove a value, so that the next one in order of precedence applies again."""
    done = ask(settings, lambda admin: admin.config.unset(name, broker=broker or "", by=_me()))
    was = f" (was {done.old})" if done.changed else ""
    say(settings, f"{name} is not set for {_whose(broker)}{was}", done)


@config.command(
    "history", examples=["sulina config history", "sulina config history --limit 1000 --json"]
)
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Maximum number of changes to show.",
)
def history(settings: CliSettings, limit: int) -> None:
    """Show who changed which setting, when, and from what to what, newest first."""
    show_rows(
        settings,
        ask(settings, lambda admin: admin.config.history(limit=limit)),
        columns("time", by="changed by", name="setting", broker="broker", old="from", new="to"),
        nothing="no setting was changed",
        readable=lambda row: {"time": moment(row.at_us), "broker": row.broker or "all"},
    )


def _whose(broker: str | None) -> str:
    return "all brokers" if broker is None else broker


def _me() -> str:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        user = "unknown"
    return f"{user}@{socket.gethostname()}"
