"""The dashboard: load and traffic on top, then who keeps data, then functions and logs."""

from __future__ import annotations

from typing import Any

from infra.figures import DIMENSION, DISK, LOAD, MEMBER, NAMESPACE


def dashboard(
    prefix: str,
    region: str,
    balancer: str,
    targets: str,
    members: list[str],
    functions: list[str],
) -> dict[str, Any]:
    """The body of a dashboard of CloudWatch."""
    network = ["LoadBalancer", balancer]
    ecs = ["ClusterName", f"{prefix}-cluster", "ServiceName"]
    charts = [
        _chart("Load of the brokers", region, [[NAMESPACE, LOAD, DIMENSION, prefix]]),
        _chart(
            "Brokers that answer",
            region,
            [
                ["AWS/NetworkELB", name, *network, "TargetGroup", targets]
                for name in ("HealthyHostCount", "UnHealthyHostCount")
            ],
            "Minimum",
        ),
        _chart(
            "Connections and bytes of clients",
            region,
            [
                ["AWS/NetworkELB", "ActiveFlowCount", *network],
                ["AWS/NetworkELB", "ProcessedBytes", *network, {"stat": "Sum", "yAxis": "right"}],
            ],
        ),
        _chart(
            "CPU of the members",
            region,
            [
                ["ECS/ContainerInsights", "CpuUtilized", *ecs, f"{prefix}-{name}"]
                for name in members
            ],
        ),
        _chart(
            "Memory of the members",
            region,
            [
                ["ECS/ContainerInsights", "MemoryUtilized", *ecs, f"{prefix}-{name}"]
                for name in members
            ],
        ),
        _chart(
            "Volumes of the members, percent used",
            region,
            [[NAMESPACE, DISK, DIMENSION, prefix, MEMBER, name] for name in members],
            "Maximum",
        ),
        _chart(
            "Errors of the functions",
            region,
            [["AWS/Lambda", "Errors", "FunctionName", f"{prefix}-{name}"] for name in functions],
            "Sum",
        ),
    ]
    log = {
        "type": "log",
        "width": 24,
        "properties": {
            "title": "Brokers' latest words",
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
