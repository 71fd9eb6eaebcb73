"""``sulina security``: tokens, and the grants of their principals."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from sulina.cli.admin.audit import audit
from sulina.cli.admin.roles import binding, role
from sulina.cli.command import CliGroup
from sulina.cli.output import columns, confirm, echo, moment, say, show_rows, shown_as_json
from sulina.cli.params import duration, yes_option
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sulina.operations.security import PrincipalRights

_grants = click.argument("grants", nargs=-1, required=True, metavar="ACTION:SCOPE...")
_GRANTS_HELP = """

    ACTION is lookup, produce, consume or topics (create and change them), with a topic,
    /namespace/* or * as SCOPE; namespaces, with /namespace/* or *; schemas, with a subject or *;
    brokers or cluster, with *; or admin, which includes all others. A grant for a topic includes
    its partitions. /namespace/topic#NAME limits lookup, consume, topics and admin to the
    subscription NAME, or to those with a prefix: #PREFIX*.

    deny:ACTION:SCOPE is a deny rule: it wins over all grants, also those of bindings.
    """


@click.group(cls=CliGroup)
def security() -> None:
    """Manage tokens, grants, roles and bindings.

    Brokers started with --auth require tokens; other brokers allow everything to everyone. Clients
    send the token given with --token or SULINA_TOKEN.
    """


@security.group("token", cls=CliGroup)
def token() -> None:
    """Create, list and revoke tokens."""


@token.command(
    "create",
    examples=[
        "sulina security token create billing --grant consume:/default/orders",
        "sulina security token create web --grant produce:/shop/* --expires 90d --note 'the site'",
    ],
)
@click.argument("principal", metavar="NAME")
@click.option(
    "--grant",
    "grants",
    multiple=True,
    metavar="ACTION:SCOPE",
    help="Add this grant; may be repeated.",
)
@click.option(
    "--expires",
    type=duration,
    metavar="TIME",
    help="Lifetime, such as 90d or 12h. [default: no expiry]",
)
@click.option("--note", help="Note to store with the token.")
def create(
    settings: CliSettings,
    principal: str,
    grants: tuple[str, ...],
    expires: timedelta | None,
    note: str | None,
) -> None:
    """Create a token for the principal NAME, and print it. It can't be shown again.

    A principal may have several tokens, each revoked on its own; its grants apply to all of them.
    """
    made = ask(
        settings,
        lambda admin: admin.tokens.create(
            principal,
            grants=grants,
            seconds=0 if expires is None else max(int(expires.total_seconds()), 1),
            note=note or "",
        ),
    )
    if shown_as_json(settings, made):
        return
    echo(made.token)
    expiry = "never" if made.expires_us is None else moment(made.expires_us)
    echo(f"token {made.id} of {principal}, expires: {expiry}; keep it secret", err=True)
    if not made.enforced:
        echo("brokers do not check tokens yet: start them with --auth FILE", err=True)


@token.command("list", examples=["sulina security token list"])
def list_(settings: CliSettings) -> None:
    """List the tokens, without their text."""
    show_rows(
        settings,
        ask(settings, lambda admin: admin.tokens.list()),
        columns("id", "principal", "created", "expires", "note"),
        nothing="there are no tokens: `sulina security token create NAME` creates one",
        readable=lambda row: {
            "created": moment(row.created_us),
            "expires": "never" if row.expires_us is None else moment(row.expires_us),
        },
    )


@token.command("revoke", examples=["sulina security token revoke 3f9c1e20ab"])
@click.argument("token_id", metavar="ID")
def revoke(settings: CliSettings, token_id: str) -> None:
    """Revoke a token, and disconnect the clients that use it."""
    ask(settings, lambda admin: admin.tokens.revoke(token_id))
    say(settings, f"revoked token {token_id}", {})


@security.command("list", examples=["sulina security list"])
def principals(settings: CliSettings) -> None:
    """List the principals, with their grants, deny rules and bindings."""
    found = ask(settings, lambda admin: admin.principals.list())
    rows: Sequence[Any] = (
        found if settings.json else [row for each in found for row in _reasons(each)]
    )
    nothing = "there are no principals: `sulina security token create NAME` creates one"
    shown = columns("principal", "grants", by="source")
    show_rows(settings, rows, shown, nothing=nothing)


def _reasons(principal: PrincipalRights) -> Iterator[dict[str, Any]]:
    """One row for the principal's own grants, one for its deny rules, and one per binding."""
    name, bindings = principal.principal, principal.bindings
    if principal.grants or not (bindings or principal.denied):
        yield {"principal": name, "grants": principal.grants, "by": "grants"}
    if principal.denied:
        yield {"principal": name, "grants": principal.denied, "by": "deny rules"}
    for each in bindings:
        reach = f"{each.scope} {each.resource}".rstrip()
        by = f"binding {each.binding} of the {reach}: {', '.join(each.roles)}"
        kind = each.principal_type.replace("_", " ")
        yield {"principal": name, "grants": each.grants, "by": f"{by} (as {kind})"}


@security.command(
    "grant",
    examples=[
        "sulina security grant billing consume:/default/orders",
        "sulina security grant billing consume:/default/orders#billing deny:produce:/shop/*",
    ],
)
@click.argument("principal", metavar="NAME")
@_grants
def grant(settings: CliSettings, principal: str, grants: tuple[str, ...]) -> None:
    """Add grants or deny rules to the principal NAME. A grant creates it if necessary."""
    done = ask(settings, lambda admin: admin.principals.grant(principal, grants))
    say(settings, f"grants of {principal}: {', '.join((*done.grants, *done.denied))}", done)


@security.command("withdraw", examples=["sulina security withdraw billing consume:/default/orders"])
@click.argument("principal", metavar="NAME")
@_grants
def withdraw(settings: CliSettings, principal: str, grants: tuple[str, ...]) -> None:
    """Remove grants or deny rules of the principal NAME. Takes effect immediately, also for
    connected clients.
    """
    done = ask(settings, lambda admin: admin.principals.withdraw(principal, grants))
    left = ", ".join((*done.grants, *done.denied)) or "none"
    say(settings, f"grants of {principal}: {left}", done)


@security.command("delete", examples=["sulina security delete billing --yes"])
@click.argument("principal", metavar="NAME")
@yes_option
def delete(settings: CliSettings, principal: str, yes: bool) -> None:
    """Delete the principal NAME with its tokens, bindings and deny rules."""
    confirm(settings, f"delete {principal} and all its tokens?", yes=yes)
    ask(settings, lambda admin: admin.principals.delete(principal))
    say(settings, f"deleted {principal} and all its tokens", {})


security.add_command(audit)
security.add_command(role)
security.add_command(binding)
for _command in (grant, withdraw):
    _command.help = f"{_command.help}{_GRANTS_HELP}"
