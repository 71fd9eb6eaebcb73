"""``sulina broker``: run a broker of a cluster, and manage brokers."""

from __future__ import annotations

import click

from sulina.cli.broker_run import broker_run
from sulina.cli.brokers import broker_activate, broker_describe, broker_drain, broker_list
from sulina.cli.commands import Group


@click.group(cls=Group)
def broker() -> None:
    """Run, list, describe, drain and activate brokers."""


for _command in (broker_run, broker_list, broker_describe, broker_drain, broker_activate):
    broker.add_command(_command)
