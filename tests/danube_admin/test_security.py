"""Roles and bindings over Danube's admin services, without tokens."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from tests.danube_admin.client import AdminClient

Code = grpc.StatusCode


async def create_role(admin: AdminClient, name: str, *permissions: str, **more: Any) -> None:
    role = {"name": name, "permissions": permissions, **more}
    assert (await admin("SecurityAdmin/CreateRole", role=role)).success


def binding(name: str, **more: Any) -> dict[str, Any]:
    return {
        "id": name,
        "principal_type": "service_account",
        "principal_name": name,
        "role_names": [name],
        "scope": "cluster",
        **more,
    }


async def test_a_role_is_created_replaced_listed_and_deleted(
    admin: AdminClient, unused: str
) -> None:
    await create_role(admin, unused, "Produce", "Lookup", "Produce")
    found = (await admin("SecurityAdmin/GetRole", name=unused)).role
    assert (found.name, list(found.permissions), found.system) == (
        unused,
        ["Produce", "Lookup"],
        False,
    )
    await create_role(admin, unused, "Consume")
    listed = (await admin("SecurityAdmin/ListRoles")).roles
    [permissions] = [list(role.permissions) for role in listed if role.name == unused]
    assert permissions == ["Consume"]
    assert (await admin("SecurityAdmin/DeleteRole", name=unused)).success
    for method in ("GetRole", "DeleteRole"):
        said = await admin.refused(Code.NOT_FOUND, f"SecurityAdmin/{method}", name=unused)
        assert unused in said


async def test_a_system_role_can_not_be_deleted_or_replaced(
    admin: AdminClient, unused: str
) -> None:
    await create_role(admin, unused, "Lookup", system=True)
    await create_role(admin, unused, "Lookup", system=True)
    other = {"name": unused, "permissions": ["ManageCluster"]}
    for method, fields in (("DeleteRole", {"name": unused}), ("CreateRole", {"role": other})):
        said = await admin.refused(Code.FAILED_PRECONDITION, f"SecurityAdmin/{method}", **fields)
        assert "system role" in said
    assert (await admin("SecurityAdmin/GetRole", name=unused)).role.system


async def test_a_bound_role_can_be_deleted_and_its_binding_stays(
    admin: AdminClient, unused: str
) -> None:
    await create_role(admin, unused, "Lookup")
    assert (await admin("SecurityAdmin/CreateBinding", binding=binding(unused))).success
    assert (await admin("SecurityAdmin/DeleteRole", name=unused)).success
    fields = {"scope": "cluster", "binding_id": unused}
    found = (await admin("SecurityAdmin/GetBinding", **fields)).binding
    assert list(found.role_names) == [unused]
    assert (await admin("SecurityAdmin/DeleteBinding", **fields)).success


async def test_bindings_are_created_replaced_listed_and_deleted(
    admin: AdminClient, unused: str
) -> None:
    places = [("cluster", ""), ("namespace", unused), ("topic", f"/{unused}/orders")]
    for scope, resource in places:
        made = binding(unused, scope=scope, resource_name=resource)
        await admin("SecurityAdmin/CreateBinding", binding=made)
    # As the documentation of Danube writes a namespace; it is the same one.
    changed = binding(unused, scope="namespace", resource_name=f"/{unused}", principal_type="user")
    await admin("SecurityAdmin/CreateBinding", binding=changed)
    everywhere = (await admin("SecurityAdmin/ListAllBindings")).bindings
    found = [one for one in everywhere if one.id == unused]
    assert [(one.scope, one.resource_name) for one in found] == places
    assert [one.principal_type for one in found] == ["service_account", "user", "service_account"]
    for scope, resource in places:
        fields = {"scope": scope, "resource_name": resource}
        listed = (await admin("SecurityAdmin/ListBindings", **fields)).bindings
        assert [one.id for one in listed if one.id == unused] == [unused]
        all_of_it = (await admin("SecurityAdmin/ListBindings", scope=scope)).bindings
        assert unused in [one.id for one in all_of_it]
        fields["binding_id"] = unused
        one = (await admin("SecurityAdmin/GetBinding", **fields)).binding
        assert (one.principal_name, list(one.role_names)) == (unused, [unused])
        assert (await admin("SecurityAdmin/DeleteBinding", **fields)).success
        for method in ("GetBinding", "DeleteBinding"):
            said = await admin.refused(Code.NOT_FOUND, f"SecurityAdmin/{method}", **fields)
            assert scope in said
    left = (await admin("SecurityAdmin/ListBindings", scope="topic")).bindings
    assert unused not in [one.id for one in left]


@pytest.mark.parametrize(
    "change",
    [
        {"id": ""},
        {"principal_name": ""},
        {"principal_type": ""},
        {"principal_type": "broker_internal"},
        {"role_names": []},
        {"role_names": [""]},
        {"scope": "everywhere"},
        {"resource_name": "default"},
        {"scope": "namespace"},
        {"scope": "topic", "resource_name": "/default/*"},
    ],
)
async def test_an_invalid_binding_is_refused(
    admin: AdminClient, unused: str, change: dict[str, Any]
) -> None:
    wrong = {**binding(unused), **change}
    said = await admin.refused(Code.INVALID_ARGUMENT, "SecurityAdmin/CreateBinding", binding=wrong)
    assert said


async def test_an_invalid_role_is_refused(admin: AdminClient) -> None:
    wrong: list[dict[str, Any]] = [
        {"name": "x", "permissions": ["Sing"]},
        {"name": "x", "permissions": ["produce"]},
        {"name": ""},
        {},
    ]
    for role in wrong:
        await admin.refused(Code.INVALID_ARGUMENT, "SecurityAdmin/CreateRole", role=role)
    await admin.refused(Code.INVALID_ARGUMENT, "SecurityAdmin/ListBindings", scope="x")
