"""Prints the addresses and the commands to try when the cloud is ready."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.panel import Panel
from rich.table import Table

from broker_containers.commands.serving import own_program, own_python
from sulina.cli.output import console


def write_variables(path: Path, variables: Mapping[str, str]) -> None:
    """Write a file to ``source``, with which AWS tools and ``sulina`` find this cloud.

    It also puts this environment's programs, such as ``sulina`` and ``python``, on the PATH. Only
    its owner can read it, because it contains the root token.
    """
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    programs = shlex.quote(str(Path(sys.executable).parent))
    path.touch(0o600)
    path.write_text("".join([*lines, f'export PATH={programs}:"$PATH"\n']))


def print_panel(ready: dict[str, Any], variables: Path) -> None:
    """Print the panel."""
    cluster, aws = ready["cluster"], ready["aws"]
    sulina = own_program()
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(overflow="fold")
    grid.add_row("brokers", cluster["url"])
    grid.add_row("console", f"{cluster['http_url']} (sign in with SULINA_TOKEN)")
    grid.add_row("http", f"{cluster['http_url']}/docs")
    grid.add_row("AWS", aws["endpoint"])
    grid.add_row("lake", aws["tier"])
    grid.add_row("data, logs", ready["data"])
    if not aws["persistent"]:
        grid.add_row("", "the next start deletes all data: LocalStack does not keep its objects")
    grid.add_row()
    grid.add_row("first", f"source {os.path.relpath(variables)}")
    grid.add_row("produce", f'{sulina} produce /default/hello "hello"')
    grid.add_row("offload", f"{sulina} ledger offload /default/hello --wait")
    grid.add_row("list", f"{sulina} ledger list /default/hello")
    grid.add_row("replay", f"{sulina} consume /default/hello --from earliest")
    grid.add_row("table", f"{sulina} table show /default/hello")
    job = "-m emr_jobs.jobs.topic_statistics --path $SULINA_TIER --topic /default/hello"
    grid.add_row("Spark", f"{own_python()} {job}")
    grid.add_row("stop", "Ctrl-C")
    title = "Sulina: a cloud on one machine is ready"
    console().print(Panel.fit(grid, title=title, border_style="green"))
