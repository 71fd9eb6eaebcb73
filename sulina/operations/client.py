"""The typed administrative client: every declared operation, by group.

async with sulina.connect() as client:
    await client.admin.topics.create("/default/orders", partitions=4)
    for row in await client.admin.topics.list():
        print(row.topic, row.records)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sulina.operations.cluster import (
    BalanceOperations,
    BrokerOperations,
    ClusterOperations,
    ConfigOperations,
)
from sulina.operations.declaration import Call, Declaration, OperationGroup
from sulina.operations.messages import MessageOperations
from sulina.operations.schemas import SchemaOperations
from sulina.operations.security import (
    BindingOperations,
    PrincipalOperations,
    RoleOperations,
    TokenOperations,
)
from sulina.operations.subscriptions import SubscriptionOperations
from sulina.operations.topics import LedgerOperations, NamespaceOperations, TopicOperations


class AdminClient:
    """All operations. They raise the broker's errors, and ``UnknownOutcome`` if the connection is
    lost before the broker has answered."""

    def __init__(self, call: Call) -> None:
        """``call`` runs an operation by its name: over a connection, or in this process."""
        self._call = call
        self.namespaces: Final = NamespaceOperations(call)
        self.topics: Final = TopicOperations(call)
        self.messages: Final = MessageOperations(call)
        self.subscriptions: Final = SubscriptionOperations(call)
        self.ledgers: Final = LedgerOperations(call)
        self.schemas: Final = SchemaOperations(call)
        self.cluster: Final = ClusterOperations(call)
        self.brokers: Final = BrokerOperations(call)
        self.balance: Final = BalanceOperations(call)
        self.config: Final = ConfigOperations(call)
        self.principals: Final = PrincipalOperations(call)
        self.roles: Final = RoleOperations(call)
        self.bindings: Final = BindingOperations(call)
        self.tokens: Final = TokenOperations(call)

    async def __call__(self, name: str, arguments: Mapping[str, Any] | None = None) -> Any:
        """Run an operation by its name, JSON in and JSON out; prefer the typed groups."""
        return await self._call(name, arguments or {})


GROUPS: Final[tuple[type[OperationGroup], ...]] = tuple(
    type(group)
    for group in vars(AdminClient(None)).values()  # type: ignore[arg-type]
    if isinstance(group, OperationGroup)
)
OPERATIONS: Final[Mapping[str, Declaration]] = {
    each.name: each for group in GROUPS for each in group.operations
}
"""Every declared operation, by name."""
