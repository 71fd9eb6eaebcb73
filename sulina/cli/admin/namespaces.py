"""``sulina namespace``: create, list, describe and delete namespaces, and set their policies."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import click

from sulina.cli.command import CliGroup
from sulina.cli.output import (
    confirm,
    readable_limits,
    say,
    show_fields,
    show_limits,
    show_rows,
)
from sulina.cli.params import limit, namespace_name, yes_option
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings
from sulina.operations.json_types import plain

if TYPE_CHECKING:
    from sulina.operations.topics import NamespaceLimits


@click.group(cls=CliGroup)
def namespace() -> None:
    """Create, list, describe and delete namespaces."""


@namespace.command("create", examples=["sulina namespace create shop"])
@click.argument("name", metavar="NAMESPACE", type=namespace_name)
def create(settings: CliSettings, name: str) -> None:
    """Create a namespace, for topics such as /NAMESPACE/orders."""
    ask(settings, lambda admin: admin.namespaces.create(name))
    say(settings, f"created namespace {name}", {"namespace": name})


@namespace.command("list", examples=["sulina namespace list --json"])
def list_(settings: CliSettings) -> None:
    """List the namespaces."""
    show_rows(
        settings,
        [{"namespace": name} for name in ask(settings, lambda admin: admin.namespaces.list())],
        {"namespace": "namespace"},
        nothing="there are no namespaces: `sulina namespace create shop` creates one",
    )


@namespace.command("describe", examples=["sulina namespace describe default"])
@click.argument("name", metavar="NAMESPACE", type=namespace_name)
def describe(settings: CliSettings, name: str) -> None:
    """Show a namespace's policy, and how many topics it has."""
    described = ask(settings, lambda admin: admin.namespaces.describe(name))
    limits = readable_limits(described.policy)
    show_fields(settings, described, {**plain(described), "policy": limits})


@namespace.command("delete", examples=["sulina namespace delete shop"])
@click.argument("name", metavar="NAMESPACE", type=namespace_name)
@yes_option
def delete(settings: CliSettings, name: str, yes: bool) -> None:
    """Delete a namespace that has no topics."""
    confirm(settings, f"delete the namespace {name}?", yes=yes)
    ask(settings, lambda admin: admin.namespaces.delete(name))
    say(settings, f"deleted namespace {name}", {"namespace": name})


@namespace.command(
    "policy",
    examples=[
        "sulina namespace policy default",
        "sulina namespace policy default retention_bytes=100GB",
    ],
)
@click.argument("name", metavar="NAMESPACE", type=namespace_name)
@click.argument("limits", metavar="[LIMIT=VALUE]...", nargs=-1, type=limit)
def policy(
    settings: CliSettings, name: str, limits: tuple[tuple[str, int | bool | None], ...]
) -> None:
    """Show or set the limits that apply to a namespace's topics. 0 means no limit.

    Values are written as for `sulina topic policy`.
    """
    changes = cast("NamespaceLimits", dict(limits))
    show_limits(settings, ask(settings, lambda admin: admin.namespaces.policy(name, **changes)))
