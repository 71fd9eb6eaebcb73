"""The dashboard of journals and disks."""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Dashboard, Panel, Query, Row, Unit, Variable

_NODE: Final = 'instance=~"$instance"'

STORAGE: Final = Dashboard(
    "sulina-storage",
    "Sulina: storage",
    "Journals and disks, of storage nodes and of brokers that store entries themselves.",
    [
        Row(
            "Disks",
            [
                Panel(
                    "Write and sync",
                    Unit.SECONDS,
                    [
                        Query(
                            f"histogram_quantile({share}, sum by (le, instance) "
                            f"(rate(sulina_journal_sync_seconds_bucket{{{_NODE}}}[5m])))",
                            f"{{{{instance}}}} p{share * 100:g}",
                        )
                        for share in (0.5, 0.99)
                    ],
                    "Time to write a group of records and make it durable (fdatasync).",
                ),
                Panel(
                    "Appended",
                    Unit.BYTES_PER_SECOND,
                    [
                        Query(
                            f"rate(sulina_journal_append_bytes_total{{{_NODE}}}[1m])",
                            "{{instance}}",
                        )
                    ],
                    "Bytes made durable.",
                ),
                Panel(
                    "Disk in use",
                    Unit.SHARE,
                    [
                        Query(
                            f"1 - sulina_disk_free_bytes{{{_NODE}}} / sulina_disk_bytes{{{_NODE}}}",
                            "{{instance}}",
                        )
                    ],
                    "Enlarge the volume, tier sooner, or shorten the retention before it is full.",
                ),
            ],
        ),
        Row(
            "Journals",
            [
                Panel(
                    "Size",
                    Unit.BYTES,
                    [Query(f"sulina_journal_bytes{{{_NODE}}}", "{{instance}}")],
                    "Falls when ledgers are tiered or expire.",
                ),
                Panel(
                    "Waiting to become durable",
                    Unit.BYTES,
                    [Query(f"sulina_journal_pending_bytes{{{_NODE}}}", "{{instance}}")],
                    "Grows if the disk is slower than the producers.",
                ),
                Panel(
                    "Refused for lack of space",
                    Unit.PER_SECOND,
                    [
                        Query(
                            f"rate(sulina_journal_full_refusals_total{{{_NODE}}}[5m])",
                            "{{instance}}",
                        )
                    ],
                    "Publishers get a retriable error.",
                ),
                Panel(
                    "Damaged places",
                    Unit.COUNT,
                    [Query(f"sulina_journal_damaged_places{{{_NODE}}}", "{{instance}}")],
                    "Found at startup. They are not served; other nodes have the entries.",
                ),
            ],
        ),
        Row(
            "Storage nodes",
            [
                Panel(
                    "Healthy and needed",
                    Unit.COUNT,
                    [
                        Query("min(sulina_storage_nodes_healthy)", "healthy, at most the quorum"),
                        Query("max(sulina_storage_nodes_needed)", "needed to publish"),
                    ],
                    "As brokers see them.",
                ),
                Panel(
                    "Ledgers",
                    Unit.COUNT,
                    [
                        Query(f"sulina_storage_ledgers{{{_NODE}}}", "{{instance}}"),
                        Query(f"sulina_storage_ledgers_fenced{{{_NODE}}}", "{{instance}} fenced"),
                    ],
                    "Fenced ledgers take no more appends.",
                ),
                Panel(
                    "Append streams",
                    Unit.COUNT,
                    [Query(f"sulina_storage_append_streams{{{_NODE}}}", "{{instance}}")],
                    "One for each open ledger and broker.",
                ),
            ],
        ),
    ],
    [Variable("instance", "sulina_journal_bytes")],
)
