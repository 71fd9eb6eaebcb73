"""``sulina storage``: a storage node; the same as ``python -m storage_grpc``."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import click

from storage_grpc.service.process import run
from storage_grpc.service.settings import CONFIG, describe, load
from sulina.cli.command import JSON_ONLY, CliCommand
from sulina.cli.settings import CliSettings


def _settings(command: Callable[..., None]) -> Callable[..., None]:
    """Add one option per setting, and one for the configuration file."""
    for name, text, default in reversed(describe()):
        flag = f"--{name.replace('_', '-')}"
        shown = f"{text[0].upper()}{text[1:]}. [default: {default}]"
        command = click.option(flag, name, metavar="VALUE", help=shown)(command)
    shown = "TOML file with settings, named like the options."
    return click.option(f"--{CONFIG}", CONFIG, metavar="FILE", help=shown)(command)


@click.command(
    cls=CliCommand,
    common=JSON_ONLY,
    examples=[
        "sulina storage --id storage-1 --data /var/lib/sulina",
        "sulina storage --config node.toml --host 0.0.0.0",
        "sulina storage --port 0 --json",
    ],
)
@_settings
def storage(settings: CliSettings, /, **flags: Any) -> None:
    """Run a storage node of a cluster.

    Each option can also be set in the environment, as SULINA_STORAGE_<NAME>, and in the file. An
    option overrides the environment, which overrides the file. Ctrl-C or SIGTERM stops the node
    cleanly. With --json it prints one line when it is ready:
    {"event": "ready", "port": ..., "pid": ..., "id": ..., "incarnation": ...}.
    """
    node = load(flags, os.environ)
    click.get_current_context().exit(run(node, as_json=settings.json))
