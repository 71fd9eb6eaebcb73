"""``sulina security``: tokens, and what their owners may do. Roles are in ``roles``."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import click

from sulina.cli.admin.roles import binding, role
from sulina.cli.command import CliGroup
from sulina.cli.output import confirm, moment, say, show_rows, write_json
from sulina.cli.params import duration
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings

_grants = click.argument("grants", nargs=-1, required=True, metavar="ACTION:SCOPE...")
_GRANTS_HELP = """

    An ACTION is lookup, produce, consume or topics (to make and change them), with a topic,
    /namespace/* or * for a SCOPE; namespaces with /namespace/* or *; schemas with a subject or *;
    brokers or cluster with *; or admin, which may do all of it. Partitions go with their topic.
    """


@click.group(cls=CliGroup)
def security() -> None:
    """Make and revoke tokens, and say what their owners may do.

    Brokers that were started with --auth ask for tokens; without it, everybody may do everything.
    Clients show a token as SULINA_TOKEN or --token.
    """


@security.group("token", cls=CliGroup)
def token() -> None:
    """Make, list and revoke tokens."""


@token.command(
    "create",
    examples=[
        "sulina security token create billing --grant consume:/default/orders",
        "sulina security token create web --grant produce:/shop/* --expires 90d --note 'the site'",
    ],
)
@click.argument("principal", metavar="NAME")
@click.option("--grant", "grants", multiple=True, metavar="ACTION:SCOPE", help="Allow this, too.")
@click.option("--expires", type=duration, metavar="TIME", help="How long it holds, as 90d or 12h.")
@click.option("--note", help="What it is for.")
@click.pass_obj
def create(
    settings: CliSettings,
    principal: str,
    grants: tuple[str, ...],
    expires: timedelta | None,
    note: str | None,
) -> None:
    """Make a token for NAME, and print it: it can't be shown again.

    NAME may have several tokens, each to be revoked alone; what it may do holds for all of them.
    """
    made = ask(
        settings,
        "token.create",
        principal=principal,
        grants=list(grants) or None,
        seconds=None if expires is None else max(int(expires.total_seconds()), 1),
        note=note,
    )
    if settings.json:
        write_json(made)
        return
    click.echo(made["token"])
    until = "for ever" if made["expires_us"] is None else f"until {moment(made['expires_us'])}"
    click.echo(f"token {made['id']} of {principal} holds {until}; keep it secret", err=True)
    if not made["enforced"]:
        click.echo("nobody is asked for it yet: start brokers with --auth FILE", err=True)


@token.command("list", examples=["sulina security token list"])
@click.pass_obj
def list_(settings: CliSettings) -> None:
    """List the tokens, without their text."""
    rows: list[dict[str, Any]] = ask(settings, "token.list")
    if not settings.json:
        for row in rows:
            row["created"] = moment(row["created_us"])
            row["expires"] = "never" if row["expires_us"] is None else moment(row["expires_us"])
    columns = {
        "id": "id",
        "principal": "of",
        "created": "created",
        "expires": "expires",
        "note": "note",
    }
    nothing = "there are no tokens: `sulina security token create NAME` makes one"
    show_rows(settings, rows, columns, nothing=nothing)


@token.command("revoke", examples=["sulina security token revoke 3f9c1e20ab"])
@click.argument("token_id", metavar="ID")
@click.pass_obj
def revoke(settings: CliSettings, token_id: str) -> None:
    """Make a token worthless. Who is connected with it is sent away."""
    done = ask(settings, "token.revoke", id=token_id)
    say(settings, f"token {token_id} is worth nothing any more", done)


@security.command("list", examples=["sulina security list"])
@click.pass_obj
def principals(settings: CliSettings) -> None:
    """List who may do what, and by which grants or bindings."""
    found: list[dict[str, Any]] = ask(settings, "principal.list")
    rows = found if settings.json else [row for each in found for row in _reasons(each)]
    nothing = "nobody is known: `sulina security token create NAME` makes somebody"
    columns = {"principal": "name", "grants": "may", "by": "by"}
    show_rows(settings, rows, columns, nothing=nothing)


def _reasons(principal: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A row for what somebody may do by own grants, and one for each binding."""
    name, bindings = principal["principal"], principal["bindings"]
    if principal["grants"] or not bindings:
        yield {"principal": name, "grants": principal["grants"], "by": "grants"}
    for each in bindings:
        reach = f"{each['scope']} {each['resource']}".rstrip()
        by = f"binding {each['binding']} of the {reach}: {', '.join(each['roles'])}"
        kind = each["principal_type"].replace("_", " ")
        yield {"principal": name, "grants": each["grants"], "by": f"{by} (as {kind})"}


@security.command("grant", examples=["sulina security grant billing consume:/default/orders"])
@click.argument("principal", metavar="NAME")
@_grants
@click.pass_obj
def grant(settings: CliSettings, principal: str, grants: tuple[str, ...]) -> None:
    """Allow NAME more; it is made if need be."""
    done = ask(settings, "principal.grant", principal=principal, grants=list(grants))
    say(settings, f"{principal} may {', '.join(done['grants'])}", done)


@security.command("withdraw", examples=["sulina security withdraw billing consume:/default/orders"])
@click.argument("principal", metavar="NAME")
@_grants
@click.pass_obj
def withdraw(settings: CliSettings, principal: str, grants: tuple[str, ...]) -> None:
    """Allow NAME less; it holds at once, also for who is connected."""
    done = ask(settings, "principal.withdraw", principal=principal, grants=list(grants))
    say(settings, f"{principal} may {', '.join(done['grants']) or 'nothing'}", done)


@security.command("delete", examples=["sulina security delete billing --yes"])
@click.argument("principal", metavar="NAME")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.pass_obj
def delete(settings: CliSettings, principal: str, yes: bool) -> None:
    """Forget NAME; all its tokens are worth nothing then."""
    confirm(settings, f"delete {principal} and all its tokens?", yes=yes)
    done = ask(settings, "principal.delete", principal=principal)
    say(settings, f"{principal} is deleted, with all tokens", done)


security.add_command(role)
security.add_command(binding)
for _command in (grant, withdraw):
    _command.help = f"{_command.help}{_GRANTS_HELP}"
