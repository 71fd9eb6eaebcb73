"""Principals, their grants, and tokens.

* ``/auth/principals/{name}``: a principal (a person, a service) with its grants.
* ``/auth/denials/{name}``: the deny rules of a principal, which win over all its grants. They are
  kept apart: a deny rule alone makes nobody a principal, and may name one that a provider of
  identities knows.
* ``/auth/tokens/{id}``: a token that authenticates a principal. Only a digest is stored, so readers
  of the store cannot use it.

Roles and bindings, which also give rights to principals, are in ``roles`` and ``bindings``. A token
is invalid without its principal, so deleting a principal invalidates all its tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused
from sulina.metadata.keys import record
from sulina.metadata.keys.path import part
from sulina.metadata.store import Delete, KeyValue, MetadataStore, ModRevisionIs
from sulina.model import EVERYTHING, Action
from sulina.names import TopicName, check_label, check_namespace

AUTH: Final = "/auth/"
PRINCIPALS: Final = AUTH + "principals/"
DENIALS: Final = AUTH + "denials/"
TOKENS: Final = AUTH + "tokens/"
MAX_GRANTS: Final = 1_000
_PAGE: Final = 1_000
SUBSCRIPTION_ACTIONS: Final = frozenset(
    {Action.LOOKUP, Action.CONSUME, Action.TOPICS, Action.ADMIN}
)
"""Those that may be limited to a subscription."""
_LIMIT: Final = "#"
"""Separates a topic from a subscription. Topics can't have it in their names, so brokers that do
not know of subscriptions here find no topic for such a scope."""


@dataclass(frozen=True, slots=True)
class Grant:
    """One action within a scope: ``*``, ``/namespace/*`` or ``/namespace/topic``.

    Each of them may be limited to a subscription, ``/namespace/topic#subscription``, or to those
    whose names have a prefix, ``/namespace/topic#prefix*``. A deny rule has the same form.

    For schemas the scope is ``*``, a subject, or ``/namespace/*`` for subjects with that prefix.
    A lookup may name a subject, too. For namespaces it is not a topic; for brokers and the cluster
    it is ``*``. A grant on a topic includes its partitions.
    """

    action: Action
    scope: str

    @classmethod
    def parse(cls, text: str) -> Grant:
        """Parse ``action:scope``. Raises ``Refused`` with examples."""
        name, separator, scope = text.partition(":")
        try:
            action = Action(name)
        except ValueError:
            separator = ""
        if not separator:
            raise Refused(
                f"{text!r} is not a grant: use an action and a scope, for example "
                "produce:/default/orders, consume:/default/*, schemas:orders or admin:*; the "
                f"actions are {', '.join(Action)}"
            )
        return cls(action, _checked(action, scope))

    @property
    def split_scope(self) -> tuple[str, str]:
        """The scope without the subscription, and the subscription; empty for all."""
        if self.action in SUBSCRIPTION_ACTIONS and self.scope.startswith(("/", EVERYTHING)):
            topics, _, subscription = self.scope.partition(_LIMIT)
            return topics, subscription
        return self.scope, ""

    def __str__(self) -> str:
        return f"{self.action}:{self.scope}"


def limited_topic(scope: str) -> tuple[str, str]:
    """A topic and a subscription of it, from ``/namespace/topic#subscription``.

    The subscription is empty if the text names none. Raises ``Refused`` if it is invalid.
    """
    topic, limit, subscription = scope.partition(_LIMIT)
    return topic, check_label("subscription", subscription) if limit else ""


def with_subscription(scope: str, subscription: str) -> str:
    """The inverse of ``limited_topic``."""
    return f"{scope}{_LIMIT}{subscription}" if subscription else scope


def _checked(action: Action, scope: str) -> str:
    if scope == EVERYTHING:
        return scope
    if action is Action.SCHEMAS or (action is Action.LOOKUP and not scope.startswith("/")):
        return check_label("schema subject", scope)
    if action in (Action.BROKERS, Action.CLUSTER):
        raise Refused(f"the scope of {action} is always *: use {action}:*")
    topics, subscription = limited_topic(scope)
    if subscription:
        if action not in SUBSCRIPTION_ACTIONS:
            allowed = ", ".join(sorted(SUBSCRIPTION_ACTIONS))
            raise Refused(f"{action} can't be limited to a subscription: {allowed} can")
        return with_subscription(_checked(action, topics), subscription)
    if scope.startswith("/") and scope.endswith("/*"):
        return f"/{check_namespace(scope[1:-2])}/*"
    if action is Action.NAMESPACES:
        raise Refused(
            f"{action}:{scope} does not name a namespace: use {action}:/default/* or {action}:*"
        )
    return str(TopicName.parse(scope))


@dataclass(frozen=True, slots=True)
class PrincipalRecord:
    """A principal's own grants."""

    grants: tuple[Grant, ...] = ()
    created_us: int = 0


@dataclass(frozen=True, slots=True)
class DenyRecord:
    """The deny rules of a principal."""

    rules: tuple[Grant, ...] = ()


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The record of a token, without the token itself."""

    principal: str
    digest: str
    """SHA-256 of the token, in hex."""
    created_us: int = 0
    expires_us: int = 0
    """0 means never."""
    note: str = ""


def principal_rest(name: str) -> str:
    """A principal's key after the prefix. Raises ``Refused`` for an invalid name."""
    return part(check_label("principal", name))


def principal_key(name: str) -> str:
    return PRINCIPALS + principal_rest(name)


def denial_key(name: str) -> str:
    return DENIALS + principal_rest(name)


def token_key(token_id: str) -> str:
    return TOKENS + part(check_label("token", token_id))


async def list_principals(store: MetadataStore) -> dict[str, PrincipalRecord]:
    """All principals, by name."""
    return record.by_name(PrincipalRecord, PRINCIPALS, await list_under(store, PRINCIPALS))


async def list_tokens(store: MetadataStore) -> dict[str, TokenRecord]:
    """All tokens, by id."""
    return record.by_name(TokenRecord, TOKENS, await list_under(store, TOKENS))


async def list_under(store: MetadataStore, prefix: str) -> list[KeyValue]:
    """All keys below a prefix, read page by page."""
    found: list[KeyValue] = []
    after: str | None = None
    while True:
        page = await store.range(prefix, limit=_PAGE, after=after)
        found += page.items
        if not page.more:
            return found
        after = page.items[-1].key


async def change_principal(
    store: MetadataStore, name: str, change: Callable[[PrincipalRecord | None], PrincipalRecord]
) -> PrincipalRecord:
    """Replace a principal by ``change(current)``, which gets None if there is none yet."""
    return await record.update(store, PrincipalRecord, principal_key(name), change)


async def list_denied(store: MetadataStore) -> dict[str, tuple[Grant, ...]]:
    """All deny rules, by the name of the principal."""
    found = record.by_name(DenyRecord, DENIALS, await list_under(store, DENIALS))
    return {name: each.rules for name, each in found.items() if each.rules}


async def change_denied(
    store: MetadataStore, name: str, change: Callable[[tuple[Grant, ...]], tuple[Grant, ...]]
) -> tuple[Grant, ...]:
    """Replace the deny rules of a principal by ``change(current)``."""
    key = denial_key(name)
    left = await record.update(
        store, DenyRecord, key, lambda now: DenyRecord(change(now.rules if now else ()))
    )
    item = None if left.rules else await store.get(key)
    if item is not None and not record.decode(DenyRecord, item).rules:
        await store.txn([ModRevisionIs(key, item.mod_revision)], [Delete(key)])
    return left.rules
