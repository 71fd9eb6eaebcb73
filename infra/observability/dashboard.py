"""The dashboard: broker load and traffic, then members, then functions and logs."""

from __future__ import annotations

from typing import Any

from infra.telemetry.metrics import CLUSTER, DISK, LOAD, MEMBER, NAMESPACE


def dashboard(
    prefix: str,
    region: str,
    balancer: str,
    targets: str,
    members: list[str],
    functions: list[str],
) -> dict[str, Any]:
    """The body of a CloudWatch dashboard."""
    network = ["LoadBalancer", balancer]
    ecs = ["ClusterName", f"{prefix}-cluster", "ServiceName"]
    charts = [
        _chart("Broker load", region, [[NAMESPACE, LOAD, CLUSTER, prefix]]),
        _chart(
            "Healthy brokers",
            region,
            [
                ["AWS/NetworkELB", name, *network, "TargetGroup", targets]
                for name in ("HealthyHostCount", "UnHealthyHostCount")
            ],
            "Minimum",
        ),
        _chart(
            "Client connections and bytes",
            region,
            [
                ["AWS/NetworkELB", "ActiveFlowCount", *network],
                ["AWS/NetworkELB", "ProcessedBytes", *network, {"stat": "Sum", "yAxis": "right"}],
            ],
        ),
        _chart(
            "Member CPU",
            region,
            [["AWS/ECS", "CPUUtilization", *ecs, f"{prefix}-{name}"] for name in members],
        ),
        _chart(
            "Member memory",
            region,
            [["AWS/ECS", "MemoryUtilization", *ecs, f"{prefix}-{name}"] for name in members],
        ),
        _chart(
            "Member volumes, percent used",
            region,
            [[NAMESPACE, DISK, CLUSTER, prefix, MEMBER, name] for name in members],
            "Maximum",
        ),
        _chart(
            "Function errors",
            region,
            [["AWS/Lambda", "Errors", "FunctionName", f"{prefix}-{name}"] for name in functions],
            "Sum",
        ),
    ]
    log = {
        "type": "log",
        "width": 24,
        "properties": {
            "title": "Latest broker log lines",
            "region": region,
            "query": f"SOURCE '/{prefix}/broker' | fields @timestamp, @message "
            "| sort @timestamp desc | limit 50",
            "view": "table",
        },
    }
    return {
        "widgets": [
            *(_placed(chart, number) for number, chart in enumerate(charts)),
            {**log, "x": 0, "y": 6 * ((len(charts) + 2) // 3), "height": 6},
        ]
    }


def _placed(chart: dict[str, Any], number: int) -> dict[str, Any]:
    return {**chart, "x": 8 * (number % 3), "y": 6 * (number // 3)}


def _chart(
    title: str, region: str, metrics: list[list[Any]], statistic: str = "Average"
) -> dict[str, Any]:
    return {
        "type": "metric",
        "width": 8,
        "height": 6,
        "properties": {
            "title": title,
            "region": region,
            "metrics": metrics,
            "stat": statistic,
            "period": 60,
            "view": "timeSeries",
        },
    }
