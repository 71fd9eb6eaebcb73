"""Namespaces: ``/namespaces/{namespace}/policy``; a namespace exists while this key does.

``/namespaces/{namespace}/deleting`` exists while the namespace is being deleted, and keeps topics
from being created in it meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulina.errors import AlreadyExists, NotFound, Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.path import NAMESPACES, name_of, namespace_root, topics_root
from sulina.metadata.keys.policy import NamespacePolicy, Policy, PolicyOverrides
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    MetadataStore,
    ModRevisionIs,
    Present,
    Put,
)
from sulina.names import check_namespace

PERMANENT_NAMESPACES = ("default", "system")


def policy_key(namespace: str) -> str:
    return namespace_root(namespace) + "policy"


def deleting_key(namespace: str) -> str:
    """The key that marks a namespace as being deleted."""
    return namespace_root(namespace) + "deleting"


def takes_topics(namespace: str) -> list[Compare]:
    """The conditions under which topics may be created in a namespace."""
    return [Present(policy_key(namespace)), Absent(deleting_key(namespace))]


async def create_first(store: MetadataStore) -> None:
    """Create the namespaces that always exist, if they are missing."""
    for namespace in PERMANENT_NAMESPACES:
        await cas.create(store, policy_key(namespace), record.encode(Policy()))


async def create(store: MetadataStore, namespace: str, policy: Policy) -> None:
    """Create a namespace. Raises ``AlreadyExists``."""
    check_namespace(namespace)
    if not await cas.create(store, policy_key(namespace), record.encode(policy)):
        raise AlreadyExists(f"the namespace {namespace!r} already exists")


async def get_policy(store: MetadataStore, namespace: str) -> Policy:
    """A namespace's policy. Raises ``NotFound`` if there is no such namespace."""
    return (await get_overrides(store, namespace)).over(Policy())


async def get_overrides(store: MetadataStore, namespace: str) -> PolicyOverrides:
    """The limits that a namespace sets itself. Raises ``NotFound``."""
    policy = await record.get(store, NamespacePolicy, policy_key(namespace))
    if policy is None:
        raise missing(namespace)
    return policy.overrides


async def update_policy(store: MetadataStore, namespace: str, changes: Mapping[str, Any]) -> Policy:
    """Set the limits in ``changes`` and keep all others; returns the resulting policy.

    None leaves a limit to the brokers' settings.

    Durable when it returns. Concurrent updates of different limits all take effect. Raises
    ``NotFound`` if there is no such namespace, ``Refused`` for invalid limits, and ``Overloaded``
    if others keep changing the policy at the same time.
    """

    def change(current: NamespacePolicy | None) -> NamespacePolicy:
        if current is None:
            raise missing(namespace)
        return current.changed(changes)

    stored = await record.update(store, NamespacePolicy, policy_key(namespace), change)
    return stored.overrides.over(Policy())


async def list_names(store: MetadataStore) -> list[str]:
    """The names of all namespaces, in the order of their keys."""
    listing = await store.range(NAMESPACES)
    keys = (item.key.removeprefix(NAMESPACES).split("/") for item in listing.items)
    return [name_of(namespace) for namespace, leaf in keys if leaf == "policy"]


async def delete(store: MetadataStore, namespace: str) -> None:
    """Delete an empty namespace.

    Raises ``Refused`` if it has topics or is one that always exists, ``NotFound`` if it does not
    exist. After an interruption, call it again; until then the namespace accepts no new topics.
    """
    if namespace in PERMANENT_NAMESPACES:
        raise Refused(f"the namespace {namespace!r} always exists and cannot be deleted")
    mark = deleting_key(namespace)
    marked = await store.txn([Present(policy_key(namespace))], [Put(mark, b"")])
    if not marked.succeeded:
        raise missing(namespace)
    # From here on no topic can be created, so the listing is final. The mark's revision tells
    # concurrent deletions apart: only the last one to mark continues.
    mine = ModRevisionIs(mark, marked.revision)
    listing = await store.range(topics_root(namespace), limit=1)
    if listing.items:
        await store.txn([mine], [Delete(mark)])
        raise Refused(f"the namespace {namespace!r} still has topics: delete them first")
    deleted = await store.txn([mine], [DeletePrefix(namespace_root(namespace))])
    if not deleted.succeeded:
        raise Refused(f"the namespace {namespace!r} is being deleted by another call: try again")


def missing(namespace: str) -> NotFound:
    """The error for a namespace that does not exist."""
    return NotFound(f"there is no namespace {namespace!r}: create it first")
