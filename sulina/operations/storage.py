"""Operations on where messages are stored: the journal or the storage nodes, and their ledgers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sulina.operations.declaration import CLUSTER, GET, OperationGroup, operation
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name


@dataclass(frozen=True, slots=True)
class StorageNodeRow:
    """A storage node, as the broker that answers sees it."""

    node: Name
    address: str
    zone: Annotated[str, "Empty if the nodes have none."]
    healthy: bool
    trouble: Annotated[str, "Why it is not healthy; empty if it is."]
    pending_bytes: Annotated[Count, "Sent to it by this broker and not durable yet."]
    object_store: Annotated[str, "Where it stores objects; empty without an object store."]


@dataclass(frozen=True, slots=True)
class LedgerInDoubt:
    """A ledger that is being recovered, or has or had fewer copies than it should."""

    ledger: Count
    phase: Annotated[str, "open, in_recovery or closed."]
    under_replicated: bool
    nodes: Annotated[tuple[str, ...], "The nodes that store its newest entries."]


@dataclass(frozen=True, slots=True)
class StorageDetails:
    """Where messages are stored."""

    embedded: Annotated[bool, "Whether a journal in the broker's process stores them."]
    disk_bytes: Annotated[int | None, Between(), "Of the journal's file system."]
    disk_free_bytes: Annotated[int | None, Between()]
    write_quorum: Annotated[Count, "Copies of each message."]
    ack_quorum: Annotated[Count, "Copies that are durable when a message is acknowledged."]
    nodes: tuple[StorageNodeRow, ...]
    ledgers_checked: Annotated[Count, "How many ledgers were looked at: the first 5,000."]
    in_doubt: tuple[LedgerInDoubt, ...]


class StorageOperations(OperationGroup, name="storage"):
    """Operations on storage."""

    @operation(GET("/storage"), right=CLUSTER)
    async def show(self) -> StorageDetails:
        """Show storage nodes, disks, and ledgers that are in doubt."""
