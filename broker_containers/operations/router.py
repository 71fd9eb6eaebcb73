"""Finds the broker of a cluster that must run an operation: a topic's owner, or the leader."""

from __future__ import annotations

from typing import Any

from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.peers import Peers
from broker_containers.cluster.tables import ClusterTables
from sulina.errors import Refused, Unavailable
from sulina.names import TopicName
from sulina.operations.declaration import Arguments, Declaration, RunsOn


class ClusterRouter:
    """Forwards operations to the brokers that must run them."""

    def __init__(self, tables: ClusterTables, ownership: Ownership, peers: Peers, me: str) -> None:
        """``me`` is the id of this broker."""
        self._tables = tables
        self._ownership = ownership
        self._peers = peers
        self._me = me

    async def broker_for(self, operation: Declaration, arguments: Arguments) -> str | None:
        """The broker that must run the operation; None if it is this one.

        Waits until a topic has an owner. Raises ``Retriable`` if it gets none or if the cluster has
        no leader, and ``Refused`` for a partitioned topic: only its partitions have owners.
        """
        match operation.runs_on:
            case RunsOn.ANY_BROKER:
                return None
            case RunsOn.LEADER:
                leader, _ = self._tables.leader()
                if leader is None:
                    raise Unavailable("the cluster has no leader at the moment: try again")
                return None if leader == self._me else leader
            case RunsOn.TOPIC_OWNER | RunsOn.PARTITION_OWNERS:
                topic = arguments.get("topic")
                if not isinstance(topic, str):
                    return None  # the handler refuses it
                name = TopicName.parse(topic)
                partitions = await self._ownership.partitions_of(name)
                if partitions and operation.runs_on is RunsOn.PARTITION_OWNERS:
                    return None
                if partitions:
                    raise Refused(
                        f"{name} has {partitions} partitions: name one of them, such as "
                        f"{name.partition(0)}"
                    )
                found = await self._ownership.where(name)
                return None if found is None else found[0]

    def others(self) -> list[str]:
        """The other brokers that run."""
        return sorted(set(self._tables.living()) - {self._me})

    async def call(self, broker: str, name: str, arguments: Arguments) -> Any:
        """Run the operation on another broker, which does not forward it again."""
        return await self._peers.admin(broker, name, arguments)
