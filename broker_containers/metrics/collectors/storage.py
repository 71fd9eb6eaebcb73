"""Figures of the storage under a broker: the journal of its process, or the storage nodes."""

from __future__ import annotations

from broker_containers.metrics.collectors.broker import Write
from broker_containers.metrics.exposition import Exposition, Kind
from storage_grpc.journal import JournalStore
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings


def of_journal(entries: JournalStore) -> Write:
    """Its size, and what waits to become durable."""

    def write(text: Exposition) -> None:
        files, size = entries.usage
        text.one("sulina_journal_files", Kind.GAUGE, "Files of the journal.", files)
        text.one("sulina_journal_bytes", Kind.GAUGE, "Bytes in the journal's files.", size)
        text.one(
            "sulina_journal_pending_bytes",
            Kind.GAUGE,
            "Bytes appended and not yet durable.",
            entries.pending_bytes,
        )
        text.one(
            "sulina_journal_damaged_places",
            Kind.GAUGE,
            "Damaged places that the start found; what was there is not served.",
            len(entries.recovery.damaged) + entries.recovery.corrupt_records,
        )

    return write


def of_nodes(nodes: Nodes, settings: QuorumSettings) -> Write:
    """How many nodes could take a new ledger, up to the write quorum, and how many must."""

    def write(text: Exposition) -> None:
        healthy = len(nodes.choose(settings.write_quorum))
        text.one(
            "sulina_storage_nodes_healthy",
            Kind.GAUGE,
            "Healthy storage nodes, counted up to the write quorum.",
            healthy,
        )
        text.one(
            "sulina_storage_nodes_needed",
            Kind.GAUGE,
            "Storage nodes without which nothing can be published.",
            settings.ack_quorum,
        )

    return write
