"""Administrative methods about roles and bindings, for every door that offers ``Admin``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from broker_containers.arguments import Arguments, Method, text
from broker_containers.security.authority import Authority
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import bindings, roles
from sulina.metadata.keys.bindings import Binding, PrincipalType, Reach, Scope
from sulina.metadata.keys.roles import RoleRecord
from sulina.metadata.store import MetadataStore


def role_methods(store: MetadataStore, authority: Authority) -> dict[str, Method]:
    """The methods, for ``Admin`` to offer. Every broker can answer them for the whole cluster.

    A change is stored when its method returns, and counts on the broker that was asked.
    """

    def changing(method: Callable[[Arguments], Awaitable[Any]]) -> Method:
        async def change(arguments: Arguments) -> Any:
            result = await method(arguments)
            await authority.caught_up()
            return result

        return change

    async def role_create(arguments: Arguments) -> Any:
        name = text(arguments, "role")
        system = arguments.get("system", False)
        if not isinstance(system, bool):
            raise Refused(f"system is true or false, not {system!r}")
        made = RoleRecord(roles.permissions_of(_texts(arguments, "permissions")), system)
        await roles.put(store, name, made)
        return role_row(name, made)

    async def role_describe(arguments: Arguments) -> Any:
        name = text(arguments, "role")
        found = await roles.get(store, name)
        if found is None:
            raise _no_role(name)
        return role_row(name, found)

    async def role_list(_: Arguments) -> Any:
        return [role_row(name, found) for name, found in (await roles.list_all(store)).items()]

    async def role_delete(arguments: Arguments) -> Any:
        name = text(arguments, "role")
        if not await roles.delete(store, name):
            raise _no_role(name)
        return {}

    async def binding_create(arguments: Arguments) -> Any:
        reach, name = _reach(arguments), text(arguments, "binding")
        kind = arguments.get("principal_type", PrincipalType.SERVICE_ACCOUNT)
        made = bindings.wanted(text(arguments, "principal"), kind, _texts(arguments, "roles"))
        await bindings.put(store, reach, name, made)
        return binding_row(Binding(name, reach, made))

    async def binding_describe(arguments: Arguments) -> Any:
        reach, name = _reach(arguments), text(arguments, "binding")
        found = await bindings.get(store, reach, name)
        if found is None:
            raise _no_binding(reach, name)
        return binding_row(found)

    async def binding_list(arguments: Arguments) -> Any:
        scope, resource = arguments.get("scope"), arguments.get("resource")
        if scope is None:
            if resource:
                raise Refused(f"the resource {resource!r} needs a scope: namespace or topic")
            found = await bindings.list_all(store)
        elif resource or scope == Scope.CLUSTER:
            reach = _reach(arguments)
            found = await bindings.list_all(store, reach.scope, reach.resource)
        else:
            found = await bindings.list_all(store, bindings.scope_of(scope))
        return [binding_row(each) for each in found]

    async def binding_delete(arguments: Arguments) -> Any:
        reach, name = _reach(arguments), text(arguments, "binding")
        if not await bindings.delete(store, reach, name):
            raise _no_binding(reach, name)
        return {}

    return {
        "role.create": changing(role_create),
        "role.describe": role_describe,
        "role.list": role_list,
        "role.delete": changing(role_delete),
        "binding.create": changing(binding_create),
        "binding.describe": binding_describe,
        "binding.list": binding_list,
        "binding.delete": changing(binding_delete),
    }


def role_row(name: str, found: RoleRecord) -> dict[str, Any]:
    """A role as it is told."""
    permissions = [each.value for each in found.permissions]
    return {"role": name, "permissions": permissions, "system": found.system}


def binding_row(found: Binding) -> dict[str, Any]:
    """A binding as it is told."""
    return {
        "binding": found.id,
        "principal": found.record.principal,
        "principal_type": found.record.type.value,
        "roles": list(found.record.roles),
        "scope": found.reach.scope.value,
        "resource": found.reach.resource,
    }


def _reach(arguments: Arguments) -> Reach:
    resource = arguments.get("resource") or ""
    if not isinstance(resource, str):
        raise Refused(f"resource is a text, not {resource!r}")
    return Reach.parse(text(arguments, "scope"), resource)


def _texts(arguments: Arguments, name: str) -> list[str]:
    given = arguments.get(name)
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise Refused(f"{name} is a list of texts, not {given!r}")
    return given


def _no_role(name: str) -> NotFound:
    return NotFound(f"there is no role {name!r}")


def _no_binding(reach: Reach, name: str) -> NotFound:
    return NotFound(f"there is no binding {name!r} of the {reach}")
