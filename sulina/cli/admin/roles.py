"""``sulina security role`` and ``binding``: sets of permissions, and who has them where."""

from __future__ import annotations

import click

from sulina.cli.command import CliGroup
from sulina.cli.output import columns, say, show_rows
from sulina.cli.params import MemberOf
from sulina.cli.running import ask
from sulina.cli.settings import CliSettings
from sulina.metadata.keys.bindings import BindingScope, PrincipalType
from sulina.metadata.keys.roles import Permission, permissions_of

_scope = click.option(
    "--scope",
    type=MemberOf(BindingScope),
    required=True,
    help="Where the roles apply.",
)
_resource = click.option(
    "--resource",
    metavar="NAME",
    help="The namespace or topic, for those scopes; /namespace/topic#NAME for a subscription.",
)


@click.group("role", cls=CliGroup)
def role() -> None:
    """Create, list and delete roles. A role is a set of permissions."""


@role.command(
    "create", examples=["sulina security role create producer --permissions Produce,Lookup"]
)
@click.argument("name")
@click.option(
    "--permissions", required=True, metavar="P1,P2...", help=f"Any of {', '.join(Permission)}."
)
def create_role(settings: CliSettings, name: str, permissions: str) -> None:
    """Create or replace a role. Its bindings grant the new permissions immediately."""
    wanted = permissions_of([each.strip() for each in permissions.split(",")])
    done = ask(settings, lambda admin: admin.roles.create(name, wanted))
    say(settings, f"role {name} permits {', '.join(done.permissions)}", done)


@role.command("list", examples=["sulina security role list"])
def list_roles(settings: CliSettings) -> None:
    """List the roles."""
    shown = columns("role", "permissions", "system")
    nothing = "there are no roles: `sulina security role create` creates one"
    show_rows(settings, ask(settings, lambda admin: admin.roles.list()), shown, nothing=nothing)


@role.command("delete", examples=["sulina security role delete producer"])
@click.argument("name")
def delete_role(settings: CliSettings, name: str) -> None:
    """Delete a role. Bindings to it no longer grant its permissions."""
    ask(settings, lambda admin: admin.roles.delete(name))
    say(settings, f"deleted role {name}", {})


@click.group("binding", cls=CliGroup)
def binding() -> None:
    """Create, list and delete bindings. A binding gives roles to a principal."""


@binding.command(
    "create",
    examples=[
        "sulina security binding create web-1 --principal web --roles producer "
        "--scope namespace --resource shop"
    ],
)
@click.argument("binding_id", metavar="ID")
@click.option(
    "--principal", required=True, metavar="NAME", help="The principal that gets the roles."
)
@click.option(
    "--principal-type",
    type=MemberOf(PrincipalType),
    default=PrincipalType.SERVICE_ACCOUNT.value,
    show_default=True,
    help="The principal type that a JSON Web Token must state.",
)
@click.option("--roles", required=True, metavar="R1,R2...", help="The roles to give.")
@_scope
@_resource
def create_binding(
    settings: CliSettings,
    binding_id: str,
    principal: str,
    principal_type: PrincipalType,
    roles: str,
    scope: BindingScope,
    resource: str | None,
) -> None:
    """Give roles to a principal within a scope. Replaces a binding with the same ID."""
    wanted = [each.strip() for each in roles.split(",")]
    done = ask(
        settings,
        lambda admin: admin.bindings.create(
            binding_id,
            principal,
            wanted,
            scope,
            resource=resource or "",
            principal_type=principal_type,
        ),
    )
    where = f"{done.scope} {done.resource}".rstrip()
    say(settings, f"{principal} has {', '.join(done.roles)} on the {where}", done)


@binding.command("list", examples=["sulina security binding list"])
def list_bindings(settings: CliSettings) -> None:
    """List the bindings. `sulina security list` shows the resulting permissions."""
    fields = ("binding", "principal", "principal_type", "roles", "scope", "resource")
    shown = columns(*fields)
    nothing = "there are no bindings: `sulina security binding create` creates one"
    show_rows(settings, ask(settings, lambda admin: admin.bindings.list()), shown, nothing=nothing)


@binding.command(
    "delete",
    examples=["sulina security binding delete web-1 --scope namespace --resource shop"],
)
@click.argument("binding_id", metavar="ID")
@_scope
@_resource
def delete_binding(
    settings: CliSettings, binding_id: str, scope: BindingScope, resource: str | None
) -> None:
    """Delete a binding. It takes effect immediately, also for connected clients."""
    ask(
        settings,
        lambda admin: admin.bindings.delete(scope, binding_id, resource=resource or ""),
    )
    say(settings, f"deleted binding {binding_id}", {})
