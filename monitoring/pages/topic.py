"""The dashboard of topics."""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Dashboard, Panel, Query, Row, Unit, Variable
from monitoring.pages.quantiles import quantiles

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
                    quantiles(
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
