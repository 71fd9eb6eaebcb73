"""The typed administrative client: every declared operation, by group.

async with sulina.connect() as client:
    await client.admin.topics.create("/default/orders", partitions=4)
    for row in await client.admin.topics.list():
        print(row.topic, row.records)
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from sulina.operations.declaration import Call, OperationGroup

if TYPE_CHECKING:
    from sulina.operations.audit import AuditOperations
    from sulina.operations.cluster import (
        BalanceOperations,
        BrokerOperations,
        ClusterOperations,
        ConfigOperations,
    )
    from sulina.operations.lake import LakeOperations
    from sulina.operations.ledgers import LedgerOperations
    from sulina.operations.messages import MessageOperations
    from sulina.operations.overview import OverviewOperations
    from sulina.operations.quotas import QuotaOperations
    from sulina.operations.schemas import SchemaOperations
    from sulina.operations.security import (
        BindingOperations,
        PrincipalOperations,
        RoleOperations,
        TokenOperations,
    )
    from sulina.operations.storage import StorageOperations
    from sulina.operations.subscriptions import SubscriptionOperations
    from sulina.operations.tables import TableOperations
    from sulina.operations.topics import NamespaceOperations, TopicOperations

G = TypeVar("G", bound=OperationGroup)


class LazyGroup(Generic[G]):
    """A group of a client, imported when it is first used: importing all of them is slow."""

    def __init__(self, module: str, class_name: str) -> None:
        self._module = module
        self._class_name = class_name

    def load(self) -> type[G]:
        """The class of the group."""
        module = import_module(f"sulina.operations.{self._module}")
        loaded: type[G] = getattr(module, self._class_name)
        return loaded

    def __get__(self, client: AdminClient, owner: type) -> G:
        return self.load()(client.call)


class AdminClient:
    """All operations. They raise the broker's errors, and ``UnknownOutcome`` if the connection is
    lost before the broker has answered."""

    namespaces: LazyGroup[NamespaceOperations] = LazyGroup("topics", "NamespaceOperations")
    topics: LazyGroup[TopicOperations] = LazyGroup("topics", "TopicOperations")
    messages: LazyGroup[MessageOperations] = LazyGroup("messages", "MessageOperations")
    subscriptions: LazyGroup[SubscriptionOperations] = LazyGroup(
        "subscriptions", "SubscriptionOperations"
    )
    ledgers: LazyGroup[LedgerOperations] = LazyGroup("ledgers", "LedgerOperations")
    tables: LazyGroup[TableOperations] = LazyGroup("tables", "TableOperations")
    quotas: LazyGroup[QuotaOperations] = LazyGroup("quotas", "QuotaOperations")
    schemas: LazyGroup[SchemaOperations] = LazyGroup("schemas", "SchemaOperations")
    cluster: LazyGroup[ClusterOperations] = LazyGroup("cluster", "ClusterOperations")
    brokers: LazyGroup[BrokerOperations] = LazyGroup("cluster", "BrokerOperations")
    balance: LazyGroup[BalanceOperations] = LazyGroup("cluster", "BalanceOperations")
    config: LazyGroup[ConfigOperations] = LazyGroup("cluster", "ConfigOperations")
    overview: LazyGroup[OverviewOperations] = LazyGroup("overview", "OverviewOperations")
    lake: LazyGroup[LakeOperations] = LazyGroup("lake", "LakeOperations")
    storage: LazyGroup[StorageOperations] = LazyGroup("storage", "StorageOperations")
    principals: LazyGroup[PrincipalOperations] = LazyGroup("security", "PrincipalOperations")
    roles: LazyGroup[RoleOperations] = LazyGroup("security", "RoleOperations")
    bindings: LazyGroup[BindingOperations] = LazyGroup("security", "BindingOperations")
    tokens: LazyGroup[TokenOperations] = LazyGroup("security", "TokenOperations")
    audit: LazyGroup[AuditOperations] = LazyGroup("audit", "AuditOperations")

    def __init__(self, call: Call) -> None:
        """``call`` runs an operation by its name: over a connection, or in this process."""
        self.call = call

    async def __call__(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Run an operation by its name, JSON in and JSON out; prefer the typed groups."""
        return await self.call(name, arguments or {})
