"""Namespaces: ``/namespaces/{namespace}/policy``; one exists as long as its policy does.

``/namespaces/{namespace}/deleting`` is there while the namespace is being deleted, and keeps topics
from being created in it at the same moment.
"""

from __future__ import annotations

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


async def set_policy(store: MetadataStore, namespace: str, policy: Policy) -> None:
    """Replace a namespace's policy. Raises ``NotFound`` if there is no such namespace."""
    key = policy_key(namespace)
    result = await store.txn([Present(key)], [Put(key, record.encode(policy))])
    if not result.succeeded:
        raise missing(namespace)


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
