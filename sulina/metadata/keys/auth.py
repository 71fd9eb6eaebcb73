"""Who may do what, and how they prove who they are.

* ``/auth/principals/{name}``: a principal (a person, a service) with its grants.
* ``/auth/tokens/{id}``: a token that proves to be a principal. What is stored is a digest: nobody
  who reads the store can use it.

Roles and bindings, from which principals have rights as well, are in ``roles`` and ``bindings``. A
token whose principal is gone is worth nothing, so deleting a principal ends all its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from sulina.errors import Refused
from sulina.metadata import cas
from sulina.metadata.keys import record
from sulina.metadata.keys.path import name_of, part
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.names import TopicName, check_label, check_namespace

AUTH: Final = "/auth/"
PRINCIPALS: Final = AUTH + "principals/"
TOKENS: Final = AUTH + "tokens/"
EVERYTHING: Final = "*"
MAX_GRANTS: Final = 1_000
_PAGE: Final = 1_000


class Action(StrEnum):
    """What a grant allows."""

    LOOKUP = "lookup"
    """Find a topic and see what it is; every other grant on a topic includes it."""
    PRODUCE = "produce"
    CONSUME = "consume"
    TOPICS = "topics"
    """Make, delete, move and configure topics, without reading or publishing there."""
    NAMESPACES = "namespaces"
    """Make, delete and configure namespaces, and list what is in them."""
    SCHEMAS = "schemas"
    """Register and change schemas of a subject."""
    BROKERS = "brokers"
    """See brokers, drain and activate them."""
    CLUSTER = "cluster"
    """What is about the whole cluster: balance, settings, and who may do what."""
    ADMIN = "admin"
    """All of it."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One action within a scope: ``*``, ``/namespace/*`` or ``/namespace/topic``.

    For schemas the scope is ``*``, a subject, or ``/namespace/*`` for all subjects that begin so.
    Namespaces have no topic for a scope, brokers and the cluster only ``*``. A topic's partitions
    go with the topic.
    """

    action: Action
    scope: str

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Read ``action:scope``. Raises ``Refused`` with what would be right."""
        name, separator, scope = text.partition(":")
        try:
            action = Action(name)
        except ValueError:
            separator = ""
        if not separator:
            raise Refused(
                f"{text!r} is no grant: write an action and where it is allowed, for example "
                "produce:/default/orders, consume:/default/*, schemas:orders or admin:*; the "
                f"actions are {', '.join(Action)}"
            )
        return cls(action, _checked(action, scope))

    def __str__(self) -> str:
        return f"{self.action}:{self.scope}"


def _checked(action: Action, scope: str) -> str:
    if scope == EVERYTHING:
        return scope
    if action is Action.SCHEMAS:
        return check_label("schema subject", scope)
    if action in (Action.BROKERS, Action.CLUSTER):
        raise Refused(f"{action} is about all of them: write {action}:*")
    if scope.startswith("/") and scope.endswith("/*"):
        return f"/{check_namespace(scope[1:-2])}/*"
    if action is Action.NAMESPACES:
        raise Refused(f"{action}:{scope} names no namespace: write {action}:/default/*, or *")
    return str(TopicName.parse(scope))


@dataclass(frozen=True, slots=True)
class PrincipalRecord:
    """Who somebody is, for the brokers: what they may do."""

    grants: tuple[Grant, ...] = ()
    created_us: int = 0


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """A token, without the token."""

    principal: str
    digest: str
    """SHA-256 of the token, in hex."""
    created_us: int = 0
    expires_us: int = 0
    """0 is never."""
    note: str = ""


def principal_rest(name: str) -> str:
    """A principal's key behind the prefix. Raises ``Refused`` for what can't be a name."""
    return part(check_label("principal", name))


def principal_key(name: str) -> str:
    """Where a principal is."""
    return PRINCIPALS + principal_rest(name)


def token_key(token_id: str) -> str:
    """Where a token is."""
    return TOKENS + part(check_label("token", token_id))


async def list_principals(store: MetadataStore) -> dict[str, PrincipalRecord]:
    """All principals, by name."""
    return {
        name_of(item.key.removeprefix(PRINCIPALS)): record.decode(PrincipalRecord, item)
        for item in await list_under(store, PRINCIPALS)
    }


async def list_tokens(store: MetadataStore) -> dict[str, TokenRecord]:
    """All tokens, by id."""
    return {
        name_of(item.key.removeprefix(TOKENS)): record.decode(TokenRecord, item)
        for item in await list_under(store, TOKENS)
    }


async def list_under(store: MetadataStore, prefix: str) -> list[KeyValue]:
    """Everything beneath a prefix, page by page."""
    found: list[KeyValue] = []
    after: str | None = None
    while True:
        page = await store.range(prefix, limit=_PAGE, after=after)
        found += page.items
        if not page.more:
            return found
        after = page.items[-1].key


async def change_principal(
    store: MetadataStore,
    name: str,
    change: Callable[[PrincipalRecord | None], PrincipalRecord | None],
) -> PrincipalRecord | None:
    """Replace a principal by what ``change`` makes of it; None leaves it as it is."""

    def swap(item: KeyValue | None) -> bytes | None:
        made = change(None if item is None else record.decode(PrincipalRecord, item))
        return None if made is None else record.encode(made)

    written = await cas.update(store, principal_key(name), swap)
    if written is None:
        return None
    return record.decode(PrincipalRecord, KeyValue(principal_key(name), written, 0, 0, 0, 0))
