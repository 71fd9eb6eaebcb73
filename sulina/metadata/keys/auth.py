"""Principals, their grants, and tokens.

* ``/auth/principals/{name}``: a principal (a person, a service) with its grants.
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
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.model import EVERYTHING, Action
from sulina.names import TopicName, check_label, check_namespace

AUTH: Final = "/auth/"
PRINCIPALS: Final = AUTH + "principals/"
TOKENS: Final = AUTH + "tokens/"
MAX_GRANTS: Final = 1_000
_PAGE: Final = 1_000


@dataclass(frozen=True, slots=True)
class Grant:
    """One action within a scope: ``*``, ``/namespace/*`` or ``/namespace/topic``.

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

    def __str__(self) -> str:
        return f"{self.action}:{self.scope}"


def _checked(action: Action, scope: str) -> str:
    if scope == EVERYTHING:
        return scope
    if action is Action.SCHEMAS or (action is Action.LOOKUP and not scope.startswith("/")):
        return check_label("schema subject", scope)
    if action in (Action.BROKERS, Action.CLUSTER):
        raise Refused(f"the scope of {action} is always *: use {action}:*")
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
