"""Which broker answers an administrative method: this one, a topic's owner, or the leader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.peers import Peers
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import Refused, Unavailable
from sulina.names import TopicName

OWNERS_METHODS: Final = frozenset(
    {
        "topic.log",
        "ledger.offload",
        "messages.peek",
        "messages.publish",
        "subscription.create",
        "subscription.delete",
        "subscription.describe",
        "subscription.list",
        "subscription.policy",
        "subscription.dispatch",
        "subscription.seek",
    }
)
PARTITIONS_METHODS: Final = frozenset({"ledger.offload"})
"""Of those above: any broker can ask the owners of all partitions."""
LEADERS_METHODS: Final = frozenset(
    {"balance.show", "balance.plan", "balance.rebalance", "topic.move"}
)


class Router:
    """Sends methods to where they can be answered."""

    def __init__(self, tables: ClusterTables, ownership: Ownership, peers: Peers, me: str) -> None:
        self._tables = tables
        self._ownership = ownership
        self._peers = peers
        self._me = me

    async def target(self, method: str, arguments: Mapping[str, Any]) -> str | None:
        """The broker that answers ``method``; None if it is this one.

        Waits for a topic to have an owner. Raises ``Retriable`` if there is none, or no leader;
        ``Refused`` for a topic with partitions, which have owners where it has none.
        """
        topic = arguments.get("topic")
        if method in OWNERS_METHODS and isinstance(topic, str):
            name = TopicName.parse(topic)
            partitions = await self._ownership.partitions_of(name)
            if partitions and method in PARTITIONS_METHODS:
                return None
            if partitions:
                raise Refused(
                    f"{name} has {partitions} partitions: use those, {name.partition(0)} on"
                )
            found = await self._ownership.where(name)
            return None if found is None else found[0]
        if method in LEADERS_METHODS:
            who, _ = self._tables.leader()
            if who is None:
                raise Unavailable("the cluster has no leader at the moment: try again")
            return None if who == self._me else who
        return None

    async def call(self, broker: str, method: str, arguments: Mapping[str, Any]) -> Any:
        """Let another broker answer."""
        return await self._peers.admin(broker, method, arguments)
