"""Figures of the cold tier: how far objects lie behind, and what was done."""

from __future__ import annotations

from broker_containers.broker.broker import Broker
from broker_containers.metrics.exposition import Exposition, Kind


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
         "took them off the list; some count more than once.", broker.undertaker.deleted),
    )  # fmt: skip
    for name, help_, value in gauges:
        text.one(f"sulina_tier_{name}", Kind.GAUGE, help_, value)
    for name, help_, total in totals:
        text.one(f"sulina_tier_{name}", Kind.COUNTER, help_, total)
