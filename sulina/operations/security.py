"""Operations on tokens, principals, roles and bindings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from sulina.metadata.keys.bindings import BindingScope, PrincipalType
from sulina.metadata.keys.roles import Permission
from sulina.operations.declaration import (
    CLUSTER,
    DELETE,
    GET,
    POST,
    SIGNED_IN,
    OperationGroup,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name

GrantTexts = Annotated[
    Sequence[Name],
    "Each as action:scope, such as produce:/default/orders, consume:/default/orders#billing (one "
    "subscription) or admin:*. Starting with deny: it is a deny rule, which wins over all grants.",
]
ResourceText = Annotated[
    str,
    "A namespace or a topic, or a subscription as /namespace/topic#subscription; empty for the "
    "cluster.",
]


@dataclass(frozen=True, slots=True)
class TokenRow:
    """A token in a list, without its text."""

    id: Name
    principal: Name
    created_us: Count
    expires_us: Annotated[int | None, Between(), "null is never."]
    note: str


@dataclass(frozen=True, slots=True)
class CreatedToken(TokenRow):
    """A token that was created. Its text is not stored and can't be read again."""

    token: Annotated[str, "What clients present."]
    enforced: Annotated[bool, "Whether brokers ask for tokens at all."]


class TokenOperations(OperationGroup, name="token"):
    """Operations on tokens. They work before tokens are enforced, to prepare for that."""

    @operation(GET("/tokens"), right=CLUSTER)
    async def list(self) -> tuple[TokenRow, ...]:
        """List the tokens."""

    @operation(POST("/tokens", 201), right=CLUSTER)
    async def create(
        self,
        principal: Name,
        *,
        grants: GrantTexts = (),
        seconds: Annotated[Count, "How long it is valid; 0 is for ever."] = 0,
        note: Annotated[str, Between(0, 1000)] = "",
    ) -> CreatedToken:
        """Create a token; this answer is the only place that shows its text."""

    @operation(DELETE("/tokens/{id}"), right=CLUSTER)
    async def revoke(self, id: Name) -> None:
        """Revoke a token."""


@dataclass(frozen=True, slots=True)
class PrincipalRow:
    """A principal, its own grants and its deny rules."""

    principal: Name
    grants: tuple[str, ...]
    denied: Annotated[tuple[str, ...], "Deny rules, which win over all grants."]
    created_us: Annotated[int | None, Between(), "null if it has neither grants nor tokens."]


@dataclass(frozen=True, slots=True)
class BindingRow:
    """A binding: which roles a principal has, and where."""

    binding: Annotated[str, Between(1), "Its id."]
    principal: Name
    principal_type: PrincipalType
    roles: tuple[Name, ...]
    scope: BindingScope
    resource: ResourceText


@dataclass(frozen=True, slots=True)
class EffectiveBinding(BindingRow):
    """A binding of a principal, and what its roles allow there."""

    grants: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PrincipalRights(PrincipalRow):
    """A principal with its own grants and its bindings."""

    bindings: tuple[EffectiveBinding, ...]


@dataclass(frozen=True, slots=True)
class OwnRights:
    """Who the caller is, and what it may do."""

    principal: Name
    grants: Annotated[tuple[str, ...], "Its own, and those of its bindings."]
    denied: Annotated[tuple[str, ...], "Deny rules, which win over all grants."]
    expires_us: Annotated[int | None, Between(), "When its token expires; null is never."]


class PrincipalOperations(OperationGroup, name="principal"):
    """Operations on principals and their own grants."""

    @operation(GET("/whoami"), right=SIGNED_IN)
    async def whoami(self) -> OwnRights:
        """Show who the caller is, and its rights."""

    @operation(GET("/principals"), right=CLUSTER)
    async def list(self) -> tuple[PrincipalRights, ...]:
        """List the principals: their own grants and deny rules, and what bindings allow them."""

    @operation(POST("/principals/{principal}/grants"), right=CLUSTER)
    async def grant(self, principal: Name, grants: GrantTexts) -> PrincipalRow:
        """Add grants, for which the principal is created if necessary, and deny rules."""

    @operation(POST("/principals/{principal}/withdrawals"), right=CLUSTER)
    async def withdraw(self, principal: Name, grants: GrantTexts) -> PrincipalRow:
        """Withdraw grants and deny rules."""

    @operation(DELETE("/principals/{principal}"), right=CLUSTER)
    async def delete(self, principal: Name) -> None:
        """Delete a principal; its tokens become invalid."""


@dataclass(frozen=True, slots=True)
class RoleRow:
    """A role: a named set of permissions."""

    role: Name
    permissions: tuple[Permission, ...]
    system: Annotated[bool, "Whether it can be neither deleted nor replaced."]


class RoleOperations(OperationGroup, name="role"):
    """Operations on roles."""

    @operation(GET("/roles"), right=CLUSTER)
    async def list(self) -> tuple[RoleRow, ...]:
        """List the roles."""

    @operation(POST("/roles", 201), right=CLUSTER)
    async def create(
        self, role: Name, permissions: Sequence[Permission], *, system: bool = False
    ) -> RoleRow:
        """Create a role or replace it."""

    @operation(GET("/roles/{role}"), right=CLUSTER)
    async def describe(self, role: Name) -> RoleRow:
        """Show a role."""

    @operation(DELETE("/roles/{role}"), right=CLUSTER)
    async def delete(self, role: Name) -> None:
        """Delete a role; bindings that name it allow less from then on."""


class BindingOperations(OperationGroup, name="binding"):
    """Operations on bindings."""

    @operation(GET("/bindings"), right=CLUSTER)
    async def list(
        self, *, scope: BindingScope | None = None, resource: ResourceText = ""
    ) -> tuple[BindingRow, ...]:
        """List the bindings: all, those of a scope, or those of one namespace or topic."""

    @operation(POST("/bindings", 201), right=CLUSTER)
    async def create(
        self,
        binding: Name,
        principal: Name,
        roles: Sequence[Name],
        scope: BindingScope,
        *,
        resource: ResourceText = "",
        principal_type: PrincipalType = PrincipalType.SERVICE_ACCOUNT,
    ) -> BindingRow:
        """Give roles to a principal within a scope; replaces a binding with the same id."""

    @operation(GET("/bindings/{scope}/{binding}"), right=CLUSTER)
    async def describe(
        self, scope: BindingScope, binding: Name, *, resource: ResourceText = ""
    ) -> BindingRow:
        """Show a binding."""

    @operation(DELETE("/bindings/{scope}/{binding}"), right=CLUSTER)
    async def delete(
        self, scope: BindingScope, binding: Name, *, resource: ResourceText = ""
    ) -> None:
        """Delete a binding."""
