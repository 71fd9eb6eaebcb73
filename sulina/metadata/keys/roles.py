"""Roles: ``/auth/roles/{name}``, named sets of Danube's permissions.

A role has no effect by itself: bindings give it to principals (see ``bindings``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sulina.errors import Overloaded, Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.auth import AUTH, list_under
from sulina.metadata.keys.path import part
from sulina.metadata.store import Delete, KeyValue, MetadataStore, ModRevisionIs
from sulina.names import check_label

ROLES: Final = AUTH + "roles/"


class Permission(StrEnum):
    """The permissions of Danube's roles."""

    LOOKUP = "Lookup"
    PRODUCE = "Produce"
    CONSUME = "Consume"
    REPLICATE = "Replicate"
    MANAGE_NAMESPACE = "ManageNamespace"
    MANAGE_TOPIC = "ManageTopic"
    MANAGE_SCHEMA = "ManageSchema"
    MANAGE_BROKER = "ManageBroker"
    MANAGE_CLUSTER = "ManageCluster"


@dataclass(frozen=True, slots=True)
class RoleRecord:
    """The permissions of a role."""

    permissions: tuple[Permission, ...] = ()
    system: bool = False
    """Whether it is permanent: it can be neither deleted nor replaced."""


def permissions_of(names: Sequence[str]) -> tuple[Permission, ...]:
    """Permissions by name, without duplicates. Raises ``Refused`` for unknown names."""
    try:
        return tuple(dict.fromkeys(Permission(name) for name in names))
    except ValueError as error:
        raise Refused(f"{error}: the permissions are {', '.join(Permission)}") from None


def key(name: str) -> str:
    """The key of a role. Raises ``Refused`` for an invalid name."""
    return ROLES + part(check_label("role", name))


def decode(item: KeyValue) -> RoleRecord:
    return record.decode(RoleRecord, item)


async def get(store: MetadataStore, name: str) -> RoleRecord | None:
    """A role, or None."""
    return await record.get(store, RoleRecord, key(name))


async def list_all(store: MetadataStore) -> dict[str, RoleRecord]:
    """All roles, by name, in the order of their keys."""
    return record.by_name(RoleRecord, ROLES, await list_under(store, ROLES))


async def put(store: MetadataStore, name: str, wanted: RoleRecord) -> None:
    """Create or replace a role. Raises ``Refused`` if it is a different system role."""

    def change(current: RoleRecord | None) -> RoleRecord:
        if current is not None and current.system and current != wanted:
            raise Refused(
                f"the role {name!r} is a system role and cannot be changed: use another name"
            )
        return wanted

    await record.update(store, RoleRecord, key(name), change)


async def delete(store: MetadataStore, name: str) -> bool:
    """Delete a role; returns whether it existed. Raises ``Refused`` for a system role."""
    for _ in range(cas.DEFAULT_TRIES):
        item = await store.get(key(name))
        if item is None:
            return False
        if decode(item).system:
            raise Refused(f"the role {name!r} is a system role and cannot be deleted")
        unchanged = ModRevisionIs(item.key, item.mod_revision)
        if (await store.txn([unchanged], [Delete(item.key)])).succeeded:
            return True
    raise Overloaded(f"the role {name!r} is being changed concurrently: try again later")
