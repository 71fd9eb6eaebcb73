"""Handlers of the operations on tokens, principals, roles and bindings.

Any broker runs them for the whole cluster. A change is durable when its operation returns, and
already applies on the broker that ran it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Final

from broker_containers.operations.running import handles
from broker_containers.security.access import ACTING
from broker_containers.security.authority import Authority
from broker_containers.security.records import Rights, SecurityRecords
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import bindings, roles
from sulina.metadata.keys.auth import Grant, PrincipalRecord, TokenRecord
from sulina.metadata.keys.bindings import Binding, BindingScope, PrincipalType, Reach
from sulina.metadata.keys.roles import Permission, RoleRecord
from sulina.metadata.store import MetadataStore
from sulina.operations.security import (
    BindingOperations,
    BindingRow,
    CreatedToken,
    EffectiveBinding,
    OwnRights,
    PrincipalOperations,
    PrincipalRights,
    PrincipalRow,
    RoleOperations,
    RoleRow,
    TokenOperations,
    TokenRow,
)

_DENY: Final = "deny:"


class SecurityHandlers:
    """They also work while tokens are not enforced, so that all is ready when that begins."""

    def __init__(
        self, store: MetadataStore, records: SecurityRecords, authority: Authority
    ) -> None:
        self._store = store
        self._records = records
        self._authority = authority

    # ---- tokens ----

    @handles(TokenOperations.list)
    async def list_tokens(self) -> tuple[TokenRow, ...]:
        return tuple(_token(*found) for found in (await self._records.tokens()).items())

    @handles(TokenOperations.create)
    async def create_token(
        self, principal: str, *, grants: Sequence[str] = (), seconds: int = 0, note: str = ""
    ) -> CreatedToken:
        allowed, denied = _rules(grants)
        if denied:
            await self._records.deny(principal, denied)
        made = await self._records.create_token(principal, allowed, seconds, note)
        await self._authority.caught_up()  # the token can be used here at once
        return CreatedToken(
            **asdict(_token(made.id, made.record)), token=made.token, enforced=self._authority.on
        )

    @handles(TokenOperations.revoke)
    async def revoke_token(self, id: str) -> None:
        await self._records.revoke_token(id)
        await self._authority.caught_up()

    # ---- principals ----

    @handles(PrincipalOperations.whoami)
    async def whoami(self) -> OwnRights:
        access = ACTING.get()
        denied = tuple(f"deny:{rule}" for rule in access.denied)
        return OwnRights(
            access.principal, tuple(map(str, access.grants)), denied, access.until_us or None
        )

    @handles(PrincipalOperations.list)
    async def list_principals(self) -> tuple[PrincipalRights, ...]:
        return tuple(
            PrincipalRights(
                **asdict(_principal(found)),
                bindings=tuple(
                    EffectiveBinding(
                        **asdict(_binding(each.binding)), grants=tuple(map(str, each.grants))
                    )
                    for each in found.bound
                ),
            )
            for found in await self._records.rights()
        )

    @handles(PrincipalOperations.grant)
    async def grant(self, principal: str, grants: Sequence[str]) -> PrincipalRow:
        allowed, denied = _rules(grants, required=True)
        if denied:
            await self._records.deny(principal, denied)
        if allowed:
            await self._records.grant(principal, allowed)
        await self._authority.caught_up()
        return _principal(await self._records.own_rights(principal))

    @handles(PrincipalOperations.withdraw)
    async def withdraw(self, principal: str, grants: Sequence[str]) -> PrincipalRow:
        allowed, denied = _rules(grants, required=True)
        if allowed:
            await self._records.withdraw(principal, allowed)
        if denied:
            await self._records.stop_denying(principal, denied)
        await self._authority.caught_up()
        return _principal(await self._records.own_rights(principal))

    @handles(PrincipalOperations.delete)
    async def delete_principal(self, principal: str) -> None:
        await self._records.delete(principal)
        await self._authority.caught_up()

    # ---- roles ----

    @handles(RoleOperations.list)
    async def list_roles(self) -> tuple[RoleRow, ...]:
        return tuple(_role(*found) for found in (await roles.list_all(self._store)).items())

    @handles(RoleOperations.create)
    async def create_role(
        self, role: str, permissions: Sequence[Permission], *, system: bool = False
    ) -> RoleRow:
        made = RoleRecord(roles.permissions_of(permissions), system)
        await roles.put(self._store, role, made)
        await self._authority.caught_up()
        return _role(role, made)

    @handles(RoleOperations.describe)
    async def describe_role(self, role: str) -> RoleRow:
        found = await roles.get(self._store, role)
        if found is None:
            raise _no_role(role)
        return _role(role, found)

    @handles(RoleOperations.delete)
    async def delete_role(self, role: str) -> None:
        if not await roles.delete(self._store, role):
            raise _no_role(role)
        await self._authority.caught_up()

    # ---- bindings ----

    @handles(BindingOperations.list)
    async def list_bindings(
        self, *, scope: BindingScope | None = None, resource: str = ""
    ) -> tuple[BindingRow, ...]:
        if scope is None:
            if resource:
                raise Refused(f"the resource {resource!r} needs a scope: namespace or topic")
            found = await bindings.list_all(self._store)
        elif resource or scope is BindingScope.CLUSTER:
            reach = Reach.parse(scope, resource)
            found = await bindings.list_all(self._store, reach.scope, reach.resource)
        else:
            found = await bindings.list_all(self._store, scope)
        return tuple(map(_binding, found))

    @handles(BindingOperations.create)
    async def create_binding(
        self,
        binding: str,
        principal: str,
        roles: Sequence[str],
        scope: BindingScope,
        *,
        resource: str = "",
        principal_type: PrincipalType = PrincipalType.SERVICE_ACCOUNT,
    ) -> BindingRow:
        reach = Reach.parse(scope, resource)
        made = bindings.wanted(principal, principal_type, list(roles))
        await bindings.put(self._store, reach, binding, made)
        await self._authority.caught_up()
        return _binding(Binding(binding, reach, made))

    @handles(BindingOperations.describe)
    async def describe_binding(
        self, scope: BindingScope, binding: str, *, resource: str = ""
    ) -> BindingRow:
        reach = Reach.parse(scope, resource)
        found = await bindings.get(self._store, reach, binding)
        if found is None:
            raise _no_binding(reach, binding)
        return _binding(found)

    @handles(BindingOperations.delete)
    async def delete_binding(
        self, scope: BindingScope, binding: str, *, resource: str = ""
    ) -> None:
        reach = Reach.parse(scope, resource)
        if not await bindings.delete(self._store, reach, binding):
            raise _no_binding(reach, binding)
        await self._authority.caught_up()


def _rules(texts: Sequence[str], *, required: bool = False) -> tuple[list[Grant], list[Grant]]:
    """The grants and the deny rules among ``texts``. Raises ``Refused``."""
    if required and not texts:
        raise Refused("grants is empty: name at least one, such as produce:/default/orders")
    allowed = [Grant.parse(each) for each in texts if not each.startswith(_DENY)]
    denied = [Grant.parse(each.removeprefix(_DENY)) for each in texts if each.startswith(_DENY)]
    return allowed, denied


def _token(token_id: str, found: TokenRecord) -> TokenRow:
    expires = found.expires_us or None
    return TokenRow(token_id, found.principal, found.created_us, expires, found.note)


def _principal(found: Rights) -> PrincipalRow:
    own = found.record or PrincipalRecord()
    return PrincipalRow(
        found.principal,
        tuple(map(str, own.grants)),
        tuple(f"{_DENY}{rule}" for rule in found.denied),
        own.created_us or None,
    )


def _role(name: str, found: RoleRecord) -> RoleRow:
    return RoleRow(name, tuple(found.permissions), found.system)


def _binding(found: Binding) -> BindingRow:
    return BindingRow(
        found.id,
        found.record.principal,
        found.record.type,
        tuple(found.record.roles),
        found.reach.scope,
        found.reach.resource,
    )


def _no_role(name: str) -> NotFound:
    return NotFound(f"there is no role {name!r}")


def _no_binding(reach: Reach, name: str) -> NotFound:
    return NotFound(f"there is no binding {name!r} of the {reach}")
