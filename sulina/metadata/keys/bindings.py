"""Bindings: which principals have which roles, and where they apply.

* ``/auth/bindings/cluster/{id}``
* ``/auth/bindings/namespace/{namespace}/{id}``
* ``/auth/bindings/topic/{topic or subject}/{id}``

A binding may name roles that do not exist; they have no effect until they do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sulina.errors import Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.auth import (
    AUTH,
    limited_topic,
    list_under,
    principal_rest,
    with_subscription,
)
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import Delete, KeyValue, MetadataStore, Present
from sulina.names import TopicName, check_label, check_namespace

BINDINGS: Final = AUTH + "bindings/"
MAX_ROLES: Final = 100


class BindingScope(StrEnum):
    """What a binding applies to."""

    CLUSTER = "cluster"
    NAMESPACE = "namespace"
    TOPIC = "topic"


def scope_of(name: str) -> BindingScope:
    """A scope by its name. Raises ``Refused``."""
    try:
        return BindingScope(name)
    except ValueError:
        raise Refused(f"{name!r} is not a scope: use {', '.join(BindingScope)}") from None


class PrincipalType(StrEnum):
    """What a principal is: the first two are those of Danube's tokens."""

    SERVICE_ACCOUNT = "service_account"
    USER = "user"
    GROUP = "group"
    """A group of users, as an OpenID Connect provider names it in its tokens."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Where a binding applies: everywhere, in a namespace, or on one topic.

    A topic may be limited to a subscription: ``/namespace/topic#subscription``, or ``#prefix*``.
    As in Danube, schema subjects are named like topics; a name without a slash is always a subject.
    """

    scope: BindingScope
    resource: str = ""

    @classmethod
    def parse(cls, scope: str, resource: str) -> Reach:
        """A namespace may have a leading slash, a topic may lack it. Raises ``Refused``."""
        kind = scope_of(scope)
        if kind is BindingScope.CLUSTER:
            if resource:
                raise Refused(
                    f"the scope cluster takes no resource: for {resource!r} use the scope "
                    "namespace or topic"
                )
            return cls(kind)
        if not resource:
            raise Refused(f"the scope {kind} needs a resource: name the {kind}")
        if kind is BindingScope.NAMESPACE:
            return cls(kind, check_namespace(resource.removeprefix("/")))
        if "/" in resource:
            topic, subscription = limited_topic(resource)
            named = TopicName.parse(topic if topic.startswith("/") else f"/{topic}")
            return cls(kind, with_subscription(str(named), subscription))
        return cls(kind, check_label("schema subject", resource))

    def __str__(self) -> str:
        return f"{self.scope} {self.resource}".rstrip()


@dataclass(frozen=True, slots=True)
class BindingRecord:
    """A principal and its roles."""

    principal: str
    type: PrincipalType = PrincipalType.SERVICE_ACCOUNT
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Binding:
    """A binding with its id and scope."""

    id: str
    reach: Reach
    record: BindingRecord


def wanted(principal: str, kind: str, roles: Sequence[str]) -> BindingRecord:
    """A validated record. Raises ``Refused``."""
    principal_rest(principal)  # raises for an invalid name
    try:
        type_ = PrincipalType(kind)
    except ValueError:
        types = ", ".join(PrincipalType)
        raise Refused(f"{kind!r} is not a principal type: use {types}") from None
    if not 1 <= len(roles) <= MAX_ROLES:
        raise Refused(f"a binding must name 1 to {MAX_ROLES} roles, not {len(roles)}")
    named = tuple(dict.fromkeys(check_label("role", role) for role in roles))
    return BindingRecord(principal, type_, named)


def key(reach: Reach, binding_id: str) -> str:
    """The key of a binding. Raises ``Refused`` for an invalid id."""
    return _root(reach.scope, reach.resource) + part(check_label("binding", binding_id))


def _root(scope: BindingScope, resource: str) -> str:
    return f"{BINDINGS}{scope}/" + (f"{part(resource)}/" if resource else "")


def decode(item: KeyValue) -> Binding:
    scope, *resource, binding_id = item.key.removeprefix(BINDINGS).split("/")
    reach = Reach(BindingScope(scope), name_of("".join(resource)))
    return Binding(name_of(binding_id), reach, record.decode(BindingRecord, item))


async def get(store: MetadataStore, reach: Reach, binding_id: str) -> Binding | None:
    """A binding, or None."""
    item = await store.get(key(reach, binding_id))
    return None if item is None else decode(item)


async def list_all(
    store: MetadataStore, scope: BindingScope | None = None, at: str = ""
) -> list[Binding]:
    """All bindings, or those of a scope, or of one resource of it; in the order of their keys."""
    prefix = BINDINGS if scope is None else _root(scope, at)
    return [decode(item) for item in await list_under(store, prefix)]


async def put(store: MetadataStore, reach: Reach, binding_id: str, made: BindingRecord) -> None:
    """Create or replace a binding."""
    await cas.update(store, key(reach, binding_id), lambda _: record.encode(made))


async def delete(store: MetadataStore, reach: Reach, binding_id: str) -> bool:
    """Delete a binding; returns whether it existed."""
    name = key(reach, binding_id)
    return (await store.txn([Present(name)], [Delete(name)])).succeeded
