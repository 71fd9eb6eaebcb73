"""``sulina cluster``: the cluster as a whole."""

from __future__ import annotations

import click

from sulina.cli.brokers import BROKER_COLUMNS, broker_rows
from sulina.cli.commands import Group
from sulina.cli.output import print_fields, print_table, write_json
from sulina.cli.rebuild import rebuild
from sulina.cli.running import ask
from sulina.cli.settings import Settings


@click.group(cls=Group)
def cluster() -> None:
    """Look at the cluster as a whole, and rebuild it."""


cluster.add_command(rebuild)


@cluster.command("describe", examples=["sulina cluster describe", "sulina cluster describe --json"])
@click.pass_obj
def describe(settings: Settings) -> None:
    """Show the leader, the brokers, and how many topics are served, wait or move."""
    found = ask(settings, "cluster.describe")
    if settings.json:
        write_json(found)
        return
    brokers = found.pop("brokers")
    print_fields({**found, "leader": found["leader"] or "nobody at the moment"})
    print_table(broker_rows(brokers), BROKER_COLUMNS)
