"""The dashboard of a cluster."""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Dashboard, Kind, Panel, Query, Row, Unit
from monitoring.pages.quantiles import quantiles

_PUBLISH: Final = "sum by (le) (rate(sulina_publish_latency_ms_bucket{}[5m]))"

CLUSTER: Final = Dashboard(
    "sulina-cluster",
    "Sulina: cluster",
    "Is it healthy, how much goes through, who falls behind.",
    [
        Row(
            "Health",
            [
                Panel(
                    "Brokers up",
                    Unit.COUNT,
                    [Query('sum(up{job="sulina"})')],
                    "Brokers that Prometheus can scrape.",
                    Kind.STAT,
                    bad_below=1,
                ),
                Panel(
                    "Storage nodes that take appends",
                    Unit.COUNT,
                    [Query("sum(sulina_storage_writable)")],
                    "A node that takes none says why at /health/ready.",
                    Kind.STAT,
                    bad_below=1,
                ),
                Panel(
                    "Topics without an owner",
                    Unit.COUNT,
                    [Query("sum(sulina_cluster_unassigned) or vector(0)")],
                    "Above 0 for more than seconds: see the leader's log.",
                    Kind.STAT,
                    bad_from=1,
                ),
                Panel(
                    "Stalled subscriptions",
                    Unit.COUNT,
                    [Query("sum(sulina_subscription_stalled) or vector(0)")],
                    "Subscriptions whose next message cannot be read from storage.",
                    Kind.STAT,
                    bad_from=1,
                ),
                Panel(
                    "Fullest disk",
                    Unit.SHARE,
                    [Query("max(1 - sulina_disk_free_bytes / sulina_disk_bytes)")],
                    "Of all brokers and storage nodes.",
                    Kind.STAT,
                    bad_from=0.8,
                ),
                Panel(
                    "Publish p99",
                    Unit.MILLISECONDS,
                    [Query(f"histogram_quantile(0.99, {_PUBLISH.format('')})")],
                    "From a frame's arrival until it is durable.",
                    Kind.STAT,
                ),
            ],
        ),
        Row(
            "Traffic",
            [
                Panel(
                    "Messages",
                    Unit.PER_SECOND,
                    [
                        Query("sum(rate(sulina_broker_messages_in_total[1m]))", "published"),
                        Query("sum(rate(sulina_broker_messages_out_total[1m]))", "delivered"),
                        Query("sum(rate(sulina_broker_acknowledged_total[1m]))", "acknowledged"),
                    ],
                    "Delivered counts each subscription.",
                ),
                Panel(
                    "Bytes",
                    Unit.BYTES_PER_SECOND,
                    [
                        Query("sum(rate(sulina_broker_bytes_in_total[1m]))", "published"),
                        Query("sum(rate(sulina_broker_bytes_out_total[1m]))", "delivered"),
                    ],
                    "Bytes of frames, as compressed by producers.",
                ),
                Panel(
                    "Publish latency",
                    Unit.MILLISECONDS,
                    quantiles(_PUBLISH.format(""), exemplars=True),
                    "From a frame's arrival until it is durable, all brokers.",
                ),
            ],
        ),
        Row(
            "Consumers",
            [
                Panel(
                    "Backlog",
                    Unit.COUNT,
                    [Query("sum(sulina_broker_backlog_messages)", "messages")],
                    "Published and not acknowledged, over all subscriptions.",
                ),
                Panel(
                    "Failures",
                    Unit.PER_SECOND,
                    [
                        Query("sum(rate(sulina_broker_redelivered_total[5m]))", "redelivered"),
                        Query("sum(rate(danube_subscription_nack_total[5m]))", "refused (nack)"),
                        Query("sum(rate(sulina_subscription_ack_timeouts_total[5m]))", "timed out"),
                        Query("sum(rate(danube_subscription_dlq_total[5m]))", "dead letters"),
                    ],
                    "Messages that consumers did not process.",
                ),
                Panel(
                    "Worst lag",
                    Unit.COUNT,
                    [
                        Query(
                            "topk(10, max by (topic, subscription)"
                            " (danube_subscription_lag_messages))"
                        )
                    ],
                    "The ten subscriptions that are furthest behind.",
                    Kind.TABLE,
                ),
            ],
        ),
        Row(
            "Balance",
            [
                Panel(
                    "Load by broker",
                    Unit.SHARE,
                    [Query("sulina_balance_load", "{{broker}}")],
                    "As measured by the leader; 1 is full.",
                ),
                Panel(
                    "Topics by broker",
                    Unit.COUNT,
                    [Query("sulina_cluster_topics_owned", "{{instance}}")],
                    "Topics that each broker owns.",
                ),
                Panel(
                    "Moves and refusals to move",
                    Unit.PER_SECOND,
                    [
                        Query("sum by (why) (rate(sulina_balance_moves[5m]))", "moved: {{why}}"),
                        Query(
                            "sum by (reason) (rate(sulina_balance_not_moved[5m]))",
                            "not moved: {{reason}}",
                        ),
                    ],
                    "What the load manager did, and why it did nothing (docs/balance.md).",
                ),
            ],
        ),
    ],
)
