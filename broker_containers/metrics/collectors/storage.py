"""The storage under a broker: the journal of its process, the storage nodes, the cold tier."""

from __future__ import annotations

from broker_containers.broker.broker import Broker
from broker_containers.metrics.exposition import Exposition, MetricType, Write
from storage_grpc.journal import JournalStore
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings


def of_journal(entries: JournalStore) -> Write:
    """Its size, and what waits to become durable."""

    def write(text: Exposition) -> None:
        files, size = entries.usage
        text.one("sulina_journal_files", MetricType.GAUGE, "Files of the journal.", files)
        text.one("sulina_journal_bytes", MetricType.GAUGE, "Bytes in the journal's files.", size)
        text.one(
            "sulina_journal_pending_bytes",
            MetricType.GAUGE,
            "Bytes appended and not yet durable.",
            entries.pending_bytes,
        )
        text.one(
            "sulina_journal_damaged_places",
            MetricType.GAUGE,
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
            MetricType.GAUGE,
            "Healthy storage nodes, counted up to the write quorum.",
            healthy,
        )
        text.one(
            "sulina_storage_nodes_needed",
            MetricType.GAUGE,
            "Storage nodes without which nothing can be published.",
            settings.ack_quorum,
        )

    return write


def write_tier(text: Exposition, broker: Broker) -> None:
    """Nothing for a broker that has no tier."""
    if broker.tier is None:
        return
    lag, counters = broker.tiering.lag(), broker.tiering.counters
    gauges = (
        ("lag_seconds", "Age of the oldest record in a closed ledger that is no object yet.",
         lag.seconds),
        ("untiered_ledgers", "Closed ledgers that are no objects yet.", lag.ledgers),
        ("untiered_bytes", "Bytes of such ledgers.", lag.bytes),
        ("ready", "1 while there is an object store.", int(broker.tiering.ready)),
    )  # fmt: skip
    totals = (
        ("objects_total", "Ledgers that became objects.", counters.objects),
        ("bytes_total", "Bytes of the frames in them.", counters.bytes),
        ("object_bytes_total", "Bytes of these objects.", counters.object_bytes),
        ("failures_total", "Attempts to make an object that failed.", counters.failures),
        ("local_deleted_total", "Ledgers whose entries were deleted, as their objects are there.",
         counters.local_deleted),
        ("objects_deleted_total", "Objects deleted because retention, or the end of their topic, "
         "took them off the list; some count more than once.", broker.object_cleanup.deleted),
    )  # fmt: skip
    for name, help_, value in gauges:
        text.one(f"sulina_tier_{name}", MetricType.GAUGE, help_, value)
    for name, help_, total in totals:
        text.one(f"sulina_tier_{name}", MetricType.COUNTER, help_, total)
