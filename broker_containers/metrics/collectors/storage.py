"""The storage of a broker: the storage nodes, the cold tier."""

from __future__ import annotations

from broker_containers.broker.broker import Broker
from storage_grpc.quorum.nodes import Nodes
from storage_grpc.quorum.settings import QuorumSettings
from sulina.metrics.exposition import Exposition, Write


def of_nodes(nodes: Nodes, settings: QuorumSettings) -> Write:
    """Nodes that can take a new ledger, counted up to the write quorum, and how many are needed."""

    def write(text: Exposition) -> None:
        healthy = len(nodes.choose(settings.write_quorum))
        text.gauge(
            "sulina_storage_nodes_healthy",
            "Healthy storage nodes, counted up to the write quorum.",
            healthy,
        )
        text.gauge(
            "sulina_storage_nodes_needed",
            "Storage nodes needed to publish.",
            settings.ack_quorum,
        )

    return write


def write_tier(text: Exposition, broker: Broker) -> None:
    """Writes nothing for a broker without a tier."""
    if broker.tier is None:
        return
    lag, counters = broker.tiering.lag(), broker.tiering.counters
    merging, compacting = broker.merging.counters, broker.compacting.counters
    objects, size = broker.tiering.stored()
    gauges = (
        ("lag_seconds", "Age of the oldest record in a closed ledger that is not tiered yet.",
         lag.seconds),
        ("untiered_ledgers", "Closed ledgers that are not tiered yet.", lag.ledgers),
        ("untiered_bytes", "Bytes in closed ledgers that are not tiered yet.", lag.bytes),
        ("stored_objects", "Objects of the topics that are open here.", objects),
        ("stored_object_bytes", "Bytes of the objects of the topics that are open here.", size),
        ("ready", "1 while an object store is available.", int(broker.tiering.ready)),
    )  # fmt: skip
    totals = (
        ("objects_total", "Ledgers tiered.", counters.objects),
        ("bytes_total", "Bytes of the frames in tiered ledgers.", counters.bytes),
        ("object_bytes_total", "Bytes of the objects written.", counters.object_bytes),
        ("failures_total", "Failed attempts to tier a ledger.", counters.failures),
        ("rejected_payloads_total", "Payloads in tiered ledgers that do not fit their topic's "
         "schema.", counters.rejected),
        ("local_deleted_total", "Tiered ledgers whose entries were deleted from storage nodes.",
         counters.local_deleted),
        ("objects_deleted_total", "Objects deleted by retention, with their topic or after others "
         "replaced them; an object may count more than once.", broker.object_cleanup.deleted),
        ("merges_total", "Merges of small objects into a large one.", merging.merges),
        ("merged_objects_total", "Objects that merges replaced.", merging.objects),
        ("merged_bytes_total", "Bytes of the objects that merges wrote.", merging.bytes),
        ("merge_failures_total", "Failed attempts to merge objects.", merging.failures),
        ("compactions_total", "Rounds of compaction by key that were finished.", compacting.rounds),
        ("compacted_objects_total", "Objects that compaction wrote.", compacting.objects),
        ("compacted_records_total", "Records that compaction left out.", compacting.records),
        ("compaction_failures_total", "Failed attempts to compact objects.", compacting.failures),
    )  # fmt: skip
    text.histogram(
        "sulina_tier_freshness_seconds",
        "Time from publishing the oldest record of a ledger until it was in an object.",
        counters.freshness,
    )
    for name, help_, value in gauges:
        text.gauge(f"sulina_tier_{name}", help_, value)
    for name, help_, total in totals:
        text.counter(f"sulina_tier_{name}", help_, total)
