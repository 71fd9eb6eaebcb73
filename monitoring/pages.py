"""The dashboards: cluster, broker, topic, storage, lake.

Brokers are scraped by the job ``sulina``, storage nodes by ``sulina-storage``
(``prometheus.yml``). Series that are named as Danube's have the label ``broker``; the others are
told apart by ``instance``.
"""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Dashboard, Kind, Panel, Query, Row, Unit, Variable

_PUBLISH: Final = "sum by (le) (rate(sulina_publish_latency_ms_bucket{}[5m]))"
_QUANTILES: Final = (0.5, 0.99, 0.999)


def _quantiles(buckets: str) -> list[Query]:
    return [
        Query(f"histogram_quantile({share}, {buckets})", f"p{share * 100:g}")
        for share in _QUANTILES
    ]


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
                    _quantiles(_PUBLISH.format("")),
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

_BROKER: Final = 'instance=~"$instance"'

BROKER: Final = Dashboard(
    "sulina-broker",
    "Sulina: broker",
    "Why a broker is slow: CPU, event loop, connections, requests, refusals.",
    [
        Row(
            "Process",
            [
                Panel(
                    "CPU",
                    Unit.SHARE,
                    [Query(f"rate(process_cpu_seconds_total{{{_BROKER}}}[1m])", "{{instance}}")],
                    "1 is one core. A broker uses one core for its event loop, more for disks.",
                ),
                Panel(
                    "Memory",
                    Unit.BYTES,
                    [
                        Query(f"process_resident_memory_bytes{{{_BROKER}}}", "{{instance}}"),
                        Query(f"sulina_tail_cache_bytes{{{_BROKER}}}", "{{instance}} tail cache"),
                    ],
                    "The tail cache keeps the newest frames for consumers.",
                ),
                Panel(
                    "Event loop lag, p99",
                    Unit.SECONDS,
                    [
                        Query(
                            "histogram_quantile(0.99, sum by (le, instance) "
                            f"(rate(sulina_event_loop_lag_seconds_bucket{{{_BROKER}}}[5m])))",
                            "{{instance}}",
                        )
                    ],
                    "How late the broker's loop runs: above 0.1 s it is short of CPU.",
                ),
            ],
        ),
        Row(
            "Clients",
            [
                Panel(
                    "Connections",
                    Unit.COUNT,
                    [Query(f"sulina_connections{{{_BROKER}}}", "{{instance}} {{door}}")],
                    "By door.",
                ),
                Panel(
                    "Requests",
                    Unit.PER_SECOND,
                    [
                        Query(
                            "sum by (service, result)"
                            f" (rate(danube_broker_rpc_total{{{_BROKER}}}[1m]))",
                            "{{service}} {{result}}",
                        )
                    ],
                    "All doors, without the data commands of the binary door.",
                ),
                Panel(
                    "Refused",
                    Unit.PER_SECOND,
                    [
                        Query(
                            f"sum by (door, reason) (rate(sulina_refusals_total{{{_BROKER}}}[5m]))",
                            "{{door}}: {{reason}}",
                        ),
                        Query(
                            f"sum by (limit) (rate(sulina_quota_refusals_total{{{_BROKER}}}[5m]))",
                            "quota: {{limit}}",
                        ),
                    ],
                    "Wrong tokens, missing rights, quotas. The audit trail has names.",
                ),
            ],
        ),
        Row(
            "Limits",
            [
                Panel(
                    "File descriptors in use",
                    Unit.SHARE,
                    [
                        Query(
                            f"process_open_fds{{{_BROKER}}} / process_max_fds{{{_BROKER}}}",
                            "{{instance}}",
                        )
                    ],
                    "Near 1 new connections are refused: raise the limit of open files.",
                ),
                Panel(
                    "Publishers held back",
                    Unit.COUNT,
                    [Query(f"sulina_ledgers_overloaded{{{_BROKER}}}", "{{instance}}")],
                    "1 while too many bytes wait to become durable.",
                ),
                Panel(
                    "Audit records waiting",
                    Unit.COUNT,
                    [Query(f"sulina_audit_waiting{{{_BROKER}}}", "{{instance}}")],
                    "Administrative changes are refused while the audit trail cannot be written.",
                ),
            ],
        ),
    ],
    [Variable("instance", 'up{job="sulina"}')],
)

_TOPIC: Final = 'topic=~"$topic"'

TOPIC: Final = Dashboard(
    "sulina-topic",
    "Sulina: topic",
    "One topic or several: producers, consumers, lag by subscription, failures.",
    [
        Row(
            "Publishing",
            [
                Panel(
                    "Messages published",
                    Unit.PER_SECOND,
                    [
                        Query(
                            "sum by (topic)"
                            f" (rate(danube_topic_messages_in_total{{{_TOPIC}}}[1m]))",
                            "{{topic}}",
                        )
                    ],
                    "By topic; a partitioned topic has one series for each partition.",
                ),
                Panel(
                    "Bytes published",
                    Unit.BYTES_PER_SECOND,
                    [
                        Query(
                            f"sum by (topic) (rate(danube_topic_bytes_in_total{{{_TOPIC}}}[1m]))",
                            "{{topic}}",
                        )
                    ],
                    "Bytes of frames.",
                ),
                Panel(
                    "Publish latency",
                    Unit.MILLISECONDS,
                    _quantiles(
                        "sum by (le)"
                        f" (rate(danube_producer_send_latency_ms_bucket{{{_TOPIC}}}[5m]))"
                    ),
                    "From a frame's arrival until it is durable.",
                ),
                Panel(
                    "Refused sends",
                    Unit.PER_SECOND,
                    [
                        Query(
                            "sum by (error_code) (rate("
                            f'danube_producer_send_total{{{_TOPIC},result="error"}}[5m]))',
                            "{{error_code}}",
                        )
                    ],
                    "Messages that were refused or failed.",
                ),
            ],
        ),
        Row(
            "Subscriptions",
            [
                Panel(
                    "Lag",
                    Unit.COUNT,
                    [
                        Query(
                            "sum by (topic, subscription)"
                            f" (danube_subscription_lag_messages{{{_TOPIC}}})",
                            "{{topic}} {{subscription}}",
                        )
                    ],
                    "Published and not acknowledged.",
                ),
                Panel(
                    "Delivered",
                    Unit.PER_SECOND,
                    [
                        Query(
                            "sum by (topic, subscription)"
                            f" (rate(danube_consumer_messages_out_total{{{_TOPIC}}}[1m]))",
                            "{{topic}} {{subscription}}",
                        )
                    ],
                    "Redeliveries included.",
                ),
                Panel(
                    "Failures",
                    Unit.PER_SECOND,
                    [
                        Query(
                            f"sum by (subscription) (rate({series}{{{_TOPIC}}}[5m]))",
                            f"{{{{subscription}}}} {what}",
                        )
                        for series, what in (
                            ("danube_subscription_redelivery_total", "redelivered"),
                            ("sulina_subscription_ack_timeouts_total", "timed out"),
                            ("danube_subscription_dlq_total", "dead letters"),
                        )
                    ],
                    "Messages that consumers did not process at the first attempt.",
                ),
            ],
        ),
        Row(
            "Connected",
            [
                Panel(
                    "Producers",
                    Unit.COUNT,
                    [
                        Query(
                            f"sum by (topic) (danube_topic_active_producers{{{_TOPIC}}})",
                            "{{topic}}",
                        )
                    ],
                    "At present.",
                ),
                Panel(
                    "Consumers",
                    Unit.COUNT,
                    [
                        Query(
                            "sum by (topic, subscription)"
                            f" (danube_subscription_active_consumers{{{_TOPIC}}})",
                            "{{topic}} {{subscription}}",
                        )
                    ],
                    "A subscription with a lag and none of them waits for its application.",
                ),
                Panel(
                    "Messages kept",
                    Unit.COUNT,
                    [
                        Query(
                            f"sum by (topic) (sulina_topic_stored_messages{{{_TOPIC}}})",
                            "{{topic}}",
                        )
                    ],
                    "Readable by offset or time, tiered ones included.",
                ),
            ],
        ),
    ],
    [Variable("topic", "danube_topic_messages_in_total")],
)

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

DASHBOARDS: Final = (CLUSTER, BROKER, TOPIC, STORAGE, LAKE)
