"""Namespaces: ``/namespaces/{namespace}/policy``; one exists as long as its policy does.

``/namespaces/{namespace}/deleting`` is there while the namespace is being deleted, and keeps topics
from being created in it at the same moment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sulina.errors import AlreadyExists, NotFound, Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.path import NAMESPACES, name_of, namespace_root, topics_root
from sulina.metadata.keys.policy import Policy
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Present,
    Put,
)
from sulina.names import check_namespace

ALWAYS_THERE = ("default", "system")


def policy_key(namespace: str) -> str:
    """Where a namespace's policy is."""
    return namespace_root(namespace) + "policy"


def deleting_key(namespace: str) -> str:
    """Where it is noted that a namespace is being deleted."""
    return namespace_root(namespace) + "deleting"


def takes_topics(namespace: str) -> list[Compare]:
    """What holds while topics may be created in a namespace."""
    return [Present(policy_key(namespace)), Absent(deleting_key(namespace))]


async def create_first(store: MetadataStore) -> None:
    """Make the namespaces that exist from the beginning, where they are missing."""
    for namespace in ALWAYS_THERE:
        await cas.create(store, policy_key(namespace), record.encode(Policy()))


async def create(store: MetadataStore, namespace: str, policy: Policy) -> None:
    """Make a namespace. Raises ``AlreadyExists``."""
    check_namespace(namespace)
    if not await cas.create(store, policy_key(namespace), record.encode(policy)):
        raise AlreadyExists(f"the namespace {namespace!r} exists already")


async def get_policy(store: MetadataStore, namespace: str) -> Policy:
    """A namespace's policy. Raises ``NotFound`` if there is no such namespace."""
    item = await store.get(policy_key(namespace))
    if item is None:
        raise missing(namespace)
    return record.decode(Policy, item)


async def update_policy(store: MetadataStore, namespace: str, changes: Mapping[str, Any]) -> Policy:
    """Set the limits in ``changes`` and keep all others; returns the resulting policy.

    Durable when it returns. Concurrent updates of different limits all take effect. Raises
    ``NotFound`` if there is no such namespace, ``Refused`` for invalid limits, and ``Overloaded``
    if others keep changing the policy at the same time.
    """
    policy = Policy()

    def change(item: KeyValue | None) -> bytes | None:
        nonlocal policy
        if item is None:
            raise missing(namespace)
        current = record.decode(Policy, item)
        policy = current.with_changes(changes)
        return None if policy == current else record.encode(policy)

    await cas.update(store, policy_key(namespace), change)
    return policy


async def list_names(store: MetadataStore) -> list[str]:
    """The names of all namespaces, in the order of their keys."""
    listing = await store.range(NAMESPACES)
    keys = (item.key.removeprefix(NAMESPACES).split("/") for item in listing.items)
    return [name_of(namespace) for namespace, leaf in keys if leaf == "policy"]


async def delete(store: MetadataStore, namespace: str) -> None:
    """Delete a namespace without topics.

    Raises ``Refused`` if it has topics or is one that always exists, ``NotFound`` if it does not.
    One that was interrupted can be called again; until then the namespace takes no new topics.
    """
    if namespace in ALWAYS_THERE:
        raise Refused(f"the namespace {namespace!r} always exists and can't be deleted")
    mark = deleting_key(namespace)
    marked = await store.txn([Present(policy_key(namespace))], [Put(mark, b"")])
    if not marked.succeeded:
        raise missing(namespace)
    # From here on no topic can be created, so what the listing does not show will not appear. The
    # mark's revision tells apart several deletions at once: only the last to mark goes on.
    mine = ModRevisionIs(mark, marked.revision)
    listing = await store.range(topics_root(namespace), limit=1)
    if listing.items:
        await store.txn([mine], [Delete(mark)])
        raise Refused(f"the namespace {namespace!r} still has topics: delete them first")
    deleted = await store.txn([mine], [DeletePrefix(namespace_root(namespace))])
    if not deleted.succeeded:
        raise Refused(f"the namespace {namespace!r} is being deleted by somebody else as well")


def missing(namespace: str) -> NotFound:
    """The error for a namespace that does not exist."""
    return NotFound(f"there is no namespace {namespace!r}: create it first")
