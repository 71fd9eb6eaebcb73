"""The dashboard of brokers."""

from __future__ import annotations

from typing import Final

from monitoring.grafana import Dashboard, Panel, Query, Row, Unit, Variable

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
