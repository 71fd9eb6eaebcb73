"""Creates and deletes tokens and grants: the records that every broker's authority follows.

Every change is one write, durable when it returns; brokers apply it when their watches report it. A
token's text is not stored: only the call that creates the token returns it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from broker_containers.security.authority import PREFIX, digest_of
from broker_containers.security.permissions import grants_of
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import auth, bindings, record, roles
from sulina.metadata.keys.auth import DenyRecord, Grant, PrincipalRecord, TokenRecord
from sulina.metadata.keys.bindings import Binding
from sulina.metadata.store import Absent, Delete, MetadataStore, Present, Put
from sulina.runtime.seam import Clock

_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 24
_MOST_SECONDS: Final = 100 * 366 * 86_400
_SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that has just been created, with its text."""

    id: str
    token: str
    record: TokenRecord


@dataclass(frozen=True, slots=True)
class BoundRights:
    """A binding, and its grants with the present roles."""

    binding: Binding
    grants: tuple[Grant, ...]


@dataclass(frozen=True, slots=True)
class Rights:
    """The rights of a principal, by their source."""

    principal: str
    record: PrincipalRecord | None
    """None for a principal that exists in bindings or deny rules only."""
    bound: tuple[BoundRights, ...] = ()
    denied: tuple[Grant, ...] = ()
    """Rules that win over all grants."""


class SecurityRecords:
    """``secret`` returns that many random bytes, as text."""

    def __init__(self, store: MetadataStore, clock: Clock, secret: Callable[[int], str]) -> None:
        self._store = store
        self._clock = clock
        self._secret = secret

    async def create_token(
        self, principal: str, grants: Sequence[Grant] = (), seconds: int = 0, note: str = ""
    ) -> NewToken:
        """Create a token for a principal, created if necessary, and add ``grants`` to it.

        The token expires after ``seconds``; 0 for never.
        """
        if not 0 <= seconds <= _MOST_SECONDS:
            raise Refused(f"a token lasts at most {_MOST_SECONDS} seconds; 0 for no limit")
        await self.grant(principal, grants)
        now = self._clock.wall_us()
        token_id = self._secret(_ID_BYTES)
        token = f"{PREFIX}{token_id}_{self._secret(_SECRET_BYTES)}"
        expires = now + seconds * _SECOND_US if seconds else 0
        made = TokenRecord(principal, digest_of(token), now, expires, note)
        key = auth.token_key(token_id)
        result = await self._store.txn(
            [Absent(key), Present(auth.principal_key(principal))], [Put(key, record.encode(made))]
        )
        if not result.succeeded:
            raise NotFound(f"{principal!r} was deleted meanwhile: try again")
        return NewToken(token_id, token, made)

    async def revoke_token(self, token_id: str) -> None:
        """Invalidate a token. Raises ``NotFound``."""
        key = auth.token_key(token_id)
        if not (await self._store.txn([Present(key)], [Delete(key)])).succeeded:
            raise NotFound(f"there is no token {token_id!r}: see `sulina security token list`")

    async def tokens(self) -> dict[str, TokenRecord]:
        """All tokens, by id, including expired ones."""
        return await auth.list_tokens(self._store)

    async def grant(self, principal: str, grants: Sequence[Grant]) -> PrincipalRecord:
        """Add grants to a principal, created if necessary."""

        def change(current: PrincipalRecord | None) -> PrincipalRecord:
            before = current or PrincipalRecord(created_us=self._clock.wall_us())
            more = tuple(dict.fromkeys((*before.grants, *grants)))
            if len(more) > auth.MAX_GRANTS:
                raise Refused(f"{principal!r} would have more than {auth.MAX_GRANTS} grants")
            return replace(before, grants=more)

        return await auth.change_principal(self._store, principal, change)

    async def withdraw(self, principal: str, grants: Sequence[Grant]) -> PrincipalRecord:
        """Remove grants. Raises ``NotFound`` for a principal or a grant that does not exist."""

        def change(current: PrincipalRecord | None) -> PrincipalRecord:
            if current is None:
                raise _unknown_principal(principal)
            for grant in grants:
                if grant not in current.grants:
                    raise NotFound(f"{principal!r} has no grant {grant}")
            left = tuple(grant for grant in current.grants if grant not in grants)
            return replace(current, grants=left)

        return await auth.change_principal(self._store, principal, change)

    async def deny(self, principal: str, rules: Sequence[Grant]) -> None:
        """Add deny rules to a principal, which need not exist."""

        def change(current: tuple[Grant, ...]) -> tuple[Grant, ...]:
            more = tuple(dict.fromkeys((*current, *rules)))
            if len(more) > auth.MAX_GRANTS:
                raise Refused(f"{principal!r} would have more than {auth.MAX_GRANTS} deny rules")
            return more

        await auth.change_denied(self._store, principal, change)

    async def stop_denying(self, principal: str, rules: Sequence[Grant]) -> None:
        """Remove deny rules. Raises ``NotFound`` for a rule that does not exist."""

        def change(current: tuple[Grant, ...]) -> tuple[Grant, ...]:
            for rule in rules:
                if rule not in current:
                    raise NotFound(f"{principal!r} has no rule deny:{rule}")
            return tuple(rule for rule in current if rule not in rules)

        await auth.change_denied(self._store, principal, change)

    async def own_rights(self, principal: str) -> Rights:
        """A principal's own grants and deny rules, without bindings."""
        own = await record.get(self._store, PrincipalRecord, auth.principal_key(principal))
        denied = await record.get(self._store, DenyRecord, auth.denial_key(principal))
        return Rights(principal, own, denied=() if denied is None else denied.rules)

    async def rights(self) -> list[Rights]:
        """The rights of all principals, by name: grants, deny rules, and those of bindings."""
        principals = await auth.list_principals(self._store)
        denied = await auth.list_denied(self._store)
        known = await roles.list_all(self._store)
        bound: dict[str, list[BoundRights]] = {}
        for each in await bindings.list_all(self._store):
            found = (known[role].permissions for role in each.record.roles if role in known)
            permissions = dict.fromkeys(itertools.chain.from_iterable(found))
            here = BoundRights(each, grants_of(permissions, each.reach))
            bound.setdefault(each.record.principal, []).append(here)
        return [
            Rights(name, principals.get(name), tuple(bound.get(name, ())), denied.get(name, ()))
            for name in sorted({*principals, *bound, *denied})
        ]

    async def delete(self, principal: str) -> None:
        """Delete a principal with its tokens, bindings and deny rules. Raises ``NotFound``."""
        key = auth.principal_key(principal)
        known = await self._store.get(key) is not None
        bound = [
            each
            for each in await bindings.list_all(self._store)
            if each.record.principal == principal
        ]
        denied = auth.denial_key(principal)
        if not known and not bound and await self._store.get(denied) is None:
            raise _unknown_principal(principal)
        for each in bound:
            await bindings.delete(self._store, each.reach, each.id)
        await self._delete_tokens(principal)
        await self._store.txn([], [Delete(key)])
        # Tokens created meanwhile are invalid without their principal, and must stay so if a
        # principal of that name is created again.
        await self._delete_tokens(principal)
        await self._store.txn([], [Delete(denied)])  # last: until then they apply

    async def _delete_tokens(self, principal: str) -> None:
        for token_id, found in (await self.tokens()).items():
            if found.principal == principal:
                await self._store.txn([], [Delete(auth.token_key(token_id))])


def _unknown_principal(principal: str) -> NotFound:
    return NotFound(f"there is no principal {principal!r}: see `sulina security list`")
