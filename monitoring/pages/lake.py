"""The dashboard of the lake."""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Dashboard, Panel, Query, Row, Unit

LAKE: Final = Dashboard(
    "sulina-lake",
    "Sulina: lake",
    "How far objects are behind, what was tiered, what failed.",
    [
        Row(
            "Freshness",
            [
                Panel(
                    "Tier lag",
                    Unit.SECONDS,
                    [Query("sulina_tier_lag_seconds", "{{instance}}")],
                    "Age of the oldest record in a closed ledger that is not an object yet.",
                ),
                Panel(
                    "Ledgers waiting",
                    Unit.COUNT,
                    [Query("sulina_tier_untiered_ledgers", "{{instance}}")],
                    "Closed and not tiered.",
                ),
                Panel(
                    "Bytes waiting",
                    Unit.BYTES,
                    [Query("sulina_tier_untiered_bytes", "{{instance}}")],
                    "They stay on local disks until they are objects.",
                ),
            ],
        ),
        Row(
            "Work",
            [
                Panel(
                    "Tiered",
                    Unit.BYTES_PER_SECOND,
                    [
                        Query("sum(rate(sulina_tier_bytes_total[5m]))", "frames read"),
                        Query("sum(rate(sulina_tier_object_bytes_total[5m]))", "objects written"),
                    ],
                    "The second is smaller by what Parquet saves.",
                ),
                Panel(
                    "Objects",
                    Unit.PER_SECOND,
                    [
                        Query("sum(rate(sulina_tier_objects_total[5m]))", "written"),
                        Query("sum(rate(sulina_tier_objects_deleted_total[5m]))", "deleted"),
                    ],
                    "Deleted by retention or with their topic.",
                ),
                Panel(
                    "Failures",
                    Unit.PER_SECOND,
                    [
                        Query("sum(rate(sulina_tier_failures_total[5m]))", "failed attempts"),
                        Query(
                            "sum(rate(sulina_tier_rejected_payloads_total[5m]))",
                            "payloads that do not fit their schema",
                        ),
                    ],
                    "Attempts are repeated. Rejected payloads are in the column value_error.",
                ),
                Panel(
                    "Object store available",
                    Unit.COUNT,
                    [Query("min(sulina_tier_ready)", "1 if it is")],
                    "0 if no storage node reaches the object store.",
                ),
            ],
        ),
    ],
)
