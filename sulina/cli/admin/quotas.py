"""``sulina quota``: show and change the quotas of namespaces, principals and brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from sulina.cli.command import CliGroup
from sulina.cli.output import columns, print_table, show_rows, shown_as_json
from sulina.cli.params import MemberOf
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings
from sulina.metadata.keys.quotas import QuotaScope, WhenFull

if TYPE_CHECKING:
    from sulina.operations.client import AdminClient
    from sulina.operations.quotas import QuotaDetails

_scope = click.argument("scope", metavar="SCOPE", type=MemberOf(QuotaScope))
_name = click.argument("name", metavar="NAME")


@click.group(cls=CliGroup)
def quota() -> None:
    """Show and change quotas: limits that only administrators of the cluster can change.

    SCOPE is namespace, principal or broker. The NAME * sets the limits of all that do not set
    their own.
    """


@quota.command("list", examples=["sulina quota list"])
def list_(settings: CliSettings) -> None:
    """List what has a quota, or is connected to the broker that answers."""
    found = ask(settings, lambda admin: admin.quotas.list())
    if shown_as_json(settings, found):
        return
    rows = [
        {"scope": each.scope, "name": each.name, "limit": row.limit, "use": row.use}
        | {"allowed": row.allowed or "no limit", "set_by": row.set_by}
        for each in found
        for row in each.limits
        if row.use or row.set_by != "default"
    ]
    heads = columns("scope", "name", "limit", "use", "allowed", "set_by")
    show_rows(settings, rows, heads, nothing="no quota is set: the defaults apply")


@quota.command(
    "show", examples=["sulina quota show namespace default", "sulina quota show principal '*'"]
)
@_scope
@_name
def show(settings: CliSettings, scope: QuotaScope, name: str) -> None:
    """Show the limits in force and their use.

    Topics, partitions, subscriptions and stored bytes are counted for the whole cluster, the
    others by the broker that answers.
    """
    _print(settings, ask(settings, lambda admin: _call(admin, scope, name, {})))


@quota.command(
    "set",
    examples=[
        "sulina quota set namespace default topics=5000 publish_bytes=10000000",
        "sulina quota set namespace default stored_bytes=1000000000 when_full=drop_oldest",
        "sulina quota set principal '*' connections=100",
    ],
)
@_scope
@_name
@click.argument("limits", metavar="LIMIT=VALUE...", nargs=-1, required=True)
def set_(settings: CliSettings, scope: QuotaScope, name: str, limits: tuple[str, ...]) -> None:
    """Set limits. 0 means no limit; rates are per second and broker."""
    changes = dict(map(_limit, limits))
    _print(settings, ask(settings, lambda admin: _call(admin, scope, name, changes)))


@quota.command("unset", examples=["sulina quota unset namespace default topics"])
@_scope
@_name
@click.argument("limits", metavar="LIMIT...", nargs=-1, required=True)
def unset(settings: CliSettings, scope: QuotaScope, name: str, limits: tuple[str, ...]) -> None:
    """Unset limits, so that those of * or the defaults apply."""
    changes = dict.fromkeys(limits)
    _print(settings, ask(settings, lambda admin: _call(admin, scope, name, changes)))


async def _call(
    admin: AdminClient, scope: QuotaScope, name: str, changes: dict[str, Any]
) -> QuotaDetails:
    match scope:
        case QuotaScope.NAMESPACE:
            return await admin.quotas.namespace(name, **changes)
        case QuotaScope.PRINCIPAL:
            return await admin.quotas.principal(name, **changes)
        case QuotaScope.BROKER:
            return await admin.quotas.broker(name, **changes)


def _limit(text: str) -> tuple[str, int | WhenFull]:
    name, _, value = text.partition("=")
    if value.isascii() and value.isdigit():
        return name, int(value)
    if name == "when_full" and value in [*WhenFull]:
        return name, WhenFull(value)
    raise click.BadParameter(
        f"{text!r} is not a limit: write LIMIT=VALUE, as in topics=5000 or when_full=drop_oldest"
    )


def _print(settings: CliSettings, found: QuotaDetails) -> None:
    if shown_as_json(settings, found):
        return
    rows = [
        {"limit": row.limit, "use": row.use, "allowed": row.allowed or "no limit"}
        | {"set_by": row.set_by}
        for row in found.limits
    ]
    title = f"{found.scope} {found.name}"
    print_table(rows, columns("limit", "use", "allowed", "set_by"), title=title)
    if found.when_full is not None:
        click.echo(f"when full: {found.when_full.replace('_', ' ')}")
