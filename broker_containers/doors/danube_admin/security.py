"""SecurityAdmin: roles and bindings.

As in Danube, creating a role or binding that exists replaces it, a binding may name roles that do
not exist, and a role can be deleted while bindings name it. An invalid name, scope or permission is
a bad request.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from google.protobuf.message import Message

from broker_containers.doors.danube_admin import danube_admin_pb2 as pb
from broker_containers.doors.grpc_shared.calls import AdminService
from broker_containers.doors.grpc_shared.names import BadRequest, label
from sulina.errors import Refused
from sulina.metadata.keys import bindings, roles
from sulina.metadata.keys.bindings import Reach
from sulina.operations.client import AdminClient
from sulina.operations.security import BindingRow, RoleRow


class SecurityAdmin(AdminService):
    """The service."""

    def __init__(self, admin: AdminClient) -> None:
        self._admin = admin

    async def create_role(self, request: pb.CreateRoleRequest) -> Message:
        wanted = request.role
        with _checked():
            permissions = roles.permissions_of(wanted.permissions)
        name = label("role", wanted.name)
        await self._admin.roles.create(name, permissions, system=wanted.system)
        return pb.CreateRoleResponse(success=True)

    async def get_role(self, request: pb.GetRoleRequest) -> Message:
        found = await self._admin.roles.describe(label("role", request.name))
        return pb.GetRoleResponse(role=_role(found))

    async def list_roles(self, _: pb.Empty) -> Message:
        return pb.ListRolesResponse(roles=map(_role, await self._admin.roles.list()))

    async def delete_role(self, request: pb.DeleteRoleRequest) -> Message:
        await self._admin.roles.delete(label("role", request.name))
        return pb.DeleteRoleResponse(success=True)

    async def create_binding(self, request: pb.CreateBindingRequest) -> Message:
        wanted = request.binding
        reach, name = _named(wanted.scope, wanted.resource_name, wanted.id)
        with _checked():
            made = bindings.wanted(
                wanted.principal_name, wanted.principal_type, list(wanted.role_names)
            )
        await self._admin.bindings.create(
            name,
            made.principal,
            made.roles,
            reach.scope,
            resource=reach.resource,
            principal_type=made.type,
        )
        return pb.CreateBindingResponse(success=True)

    async def get_binding(self, request: pb.GetBindingRequest) -> Message:
        reach, name = _named(request.scope, request.resource_name, request.binding_id)
        found = await self._admin.bindings.describe(reach.scope, name, resource=reach.resource)
        return pb.GetBindingResponse(binding=_binding(found))

    async def list_bindings(self, request: pb.ListBindingsRequest) -> Message:
        """The bindings of one resource; without one, all of the scope."""
        with _checked():
            scope = bindings.scope_of(request.scope)
            at = Reach.parse(scope, request.resource_name) if request.resource_name else None
        resource = at.resource if at else ""
        return _listed(await self._admin.bindings.list(scope=scope, resource=resource))

    async def list_all_bindings(self, _: pb.Empty) -> Message:
        return _listed(await self._admin.bindings.list())

    async def delete_binding(self, request: pb.DeleteBindingRequest) -> Message:
        reach, name = _named(request.scope, request.resource_name, request.binding_id)
        await self._admin.bindings.delete(reach.scope, name, resource=reach.resource)
        return pb.DeleteBindingResponse(success=True)


@contextmanager
def _checked() -> Iterator[None]:
    """What is refused within is invalid in itself, whatever the state of the cluster."""
    try:
        yield
    except Refused as error:
        raise BadRequest(str(error)) from None


def _named(scope: str, resource: str, binding_id: str) -> tuple[Reach, str]:
    """Where a binding applies, and its id. Raises ``BadRequest``."""
    with _checked():
        reach = Reach.parse(scope, resource)
    return reach, label("binding", binding_id)


def _role(row: RoleRow) -> pb.RoleDefinition:
    return pb.RoleDefinition(name=row.role, permissions=row.permissions, system=row.system)


def _binding(row: BindingRow) -> pb.BindingDefinition:
    return pb.BindingDefinition(
        id=row.binding,
        principal_type=row.principal_type,
        principal_name=row.principal,
        role_names=row.roles,
        scope=row.scope,
        resource_name=row.resource,
    )


def _listed(rows: Iterable[BindingRow]) -> Message:
    return pb.ListBindingsResponse(bindings=map(_binding, rows))
