"""Operations on where messages are stored: the journal or the storage nodes, and their ledgers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from sulina.operations.declaration import CLUSTER, GET, PUT, OperationGroup, operation
from sulina.operations.json_forms import Between
from sulina.operations.json_types import Count, Name

_Away = Annotated[
    Count, "How many of the ledgers have copies on nodes that do not serve at the moment."
]


@dataclass(frozen=True, slots=True)
class StorageNodeState:
    """What a storage node says about itself."""

    version: str
    writable: Annotated[bool, "Whether it takes appends: its disk works and has space."]
    disk_bytes: Annotated[Count, "Of the file system of its data."]
    disk_free_bytes: Count
    journal_bytes: Annotated[Count, "Size of the files of its journal."]
    journal_files: Count
    reserved_bytes: Annotated[Count, "Space that appends find even if the disk is full."]
    pending_bytes: Annotated[Count, "Appended by all brokers and not durable yet."]
    ledgers: Annotated[Count, "Ledgers with entries on it."]
    damaged_places: Annotated[Count, "Damaged regions of the journal, found when it started."]
    log_level: str


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
    state: Annotated[StorageNodeState | None, "Null if the node does not answer."] = None


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
    next_ledger: Annotated[
        str | None, "Pass it to storage.ledgers as after for the following ones; null at the end."
    ] = None
    trouble: Annotated[str, "Why ledgers could not be looked at; empty if they were."] = ""
    away: _Away = 0


@dataclass(frozen=True, slots=True)
class LedgersChecked:
    """Those of some ledgers that are in doubt."""

    ledgers_checked: Annotated[Count, "How many ledgers were looked at."]
    in_doubt: tuple[LedgerInDoubt, ...]
    next_ledger: Annotated[str | None, "Pass it as after for the following ones; null at the end."]
    away: _Away = 0


@dataclass(frozen=True, slots=True)
class LogLevel:
    """The level of a storage node's log."""

    node: Name
    level: Name


class StorageOperations(OperationGroup, name="storage"):
    """Operations on storage."""

    @operation(GET("/storage"), right=CLUSTER)
    async def show(self) -> StorageDetails:
        """Show storage nodes, disks, and ledgers that are in doubt."""

    @operation(GET("/storage/ledgers"), right=CLUSTER)
    async def ledgers(
        self,
        *,
        after: Annotated[str, "Where the last answer ended; empty for the first ledgers."] = "",
    ) -> LedgersChecked:
        """Look at the next 5,000 ledgers for those that are in doubt."""

    @operation(PUT("/storage/nodes/{node}/log-level"), right=CLUSTER)
    async def log_level(
        self,
        node: Name,
        *,
        level: Annotated[
            str, "debug, info, warning or error; empty for the one it was started with."
        ] = "",
    ) -> LogLevel:
        """Change what a storage node logs, until it restarts."""
