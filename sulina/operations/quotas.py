"""Operations on the quotas of namespaces, principals and brokers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, TypedDict, Unpack

from sulina.metadata.keys.quotas import QuotaScope, WhenFull
from sulina.model import Action
from sulina.operations.declaration import (
    CLUSTER,
    GET,
    PATCH,
    OperationGroup,
    Right,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name

_Limit = Annotated[int | None, Between(), "0 is no limit; null leaves it to *, or the default."]
_Rate = Annotated[int | None, Between(), "Per second and broker; 0 is no limit."]


class _ConnectedQuota(TypedDict, total=False):
    """Limits that exist in every scope; each broker counts for itself."""

    producers: _Limit
    consumers: _Limit
    publish_bytes: _Rate
    publish_records: _Rate
    dispatch_bytes: _Rate
    dispatch_records: _Rate


class NamespaceQuota(_ConnectedQuota, total=False):
    """Limits of a namespace to change."""

    topics: _Limit
    partitions: _Limit
    subscriptions: _Limit
    stored_bytes: _Limit
    backlog_bytes: _Limit
    when_full: Annotated[WhenFull | None, "Beyond stored_bytes or backlog_bytes."]


class PrincipalQuota(_ConnectedQuota, total=False):
    """Limits of a principal to change: of what it created, and of what it has connected."""

    topics: _Limit
    partitions: _Limit
    subscriptions: _Limit
    schemas: _Limit
    connections: _Limit


class BrokerQuota(_ConnectedQuota, total=False):
    """Limits of a broker to change."""

    schemas: Annotated[int | None, Between(), "Subjects in the whole cluster; 0 is no limit."]
    connections: _Limit


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One limit and its use."""

    limit: Name
    use: Annotated[
        int | None,
        Between(),
        "In the cluster; null if nothing counts it: a rate or a size without a limit.",
    ]
    allowed: Annotated[Count, "0 is no limit."]
    set_by: Annotated[str, "The name whose quota sets it, which may be *, or default."]


@dataclass(frozen=True, slots=True)
class QuotaDetails:
    """The limits in force for a subject, and their use."""

    scope: QuotaScope
    name: Annotated[str, Between(1), "* for all that do not set their own."]
    broker: Annotated[str, "The one that answers."]
    limits: tuple[QuotaRow, ...]
    when_full: WhenFull | None = None
    brokers: Annotated[
        tuple[Name, ...],
        "Those whose producers, consumers, connections, rates and backlog are added up.",
    ] = ()


class QuotaOperations(OperationGroup, name="quota"):
    """Operations on quotas. Only administrators of the cluster may change them."""

    @operation(GET("/quotas"), right=CLUSTER)
    async def list(self) -> tuple[QuotaDetails, ...]:
        """List the quotas that are set, and those of everything that stores or is connected."""

    @operation(
        PATCH("/quotas/namespaces/{namespace}"),
        right=CLUSTER,
        read_right=Right(Action.NAMESPACES, "/{namespace}/*", Action.TOPICS),
    )
    async def namespace(self, namespace: Name, **limits: Unpack[NamespaceQuota]) -> QuotaDetails:
        """Show or change the quota of a namespace, or with * of all without their own."""

    @operation(PATCH("/quotas/principals/{principal}"), right=CLUSTER)
    async def principal(self, principal: Name, **limits: Unpack[PrincipalQuota]) -> QuotaDetails:
        """Show or change the quota of a principal, or with * of all without their own."""

    @operation(PATCH("/quotas/brokers/{broker}"), right=CLUSTER)
    async def broker(self, broker: Name, **limits: Unpack[BrokerQuota]) -> QuotaDetails:
        """Show or change the quota of a broker, or with * of all without their own."""
