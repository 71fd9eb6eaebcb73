"""Publishes metrics of the cluster to CloudWatch."""

from __future__ import annotations

from collections.abc import Mapping

from functions.shared.aws import client
from functions.shared.environment import optional, required

_DIMENSION = "Cluster"


def publish(values: Mapping[str, float]) -> None:
    """Publish values by name, for this cluster. Errors of AWS propagate."""
    dimensions = [{"Name": _DIMENSION, "Value": required("SULINA_CLUSTER")}]
    client("cloudwatch").put_metric_data(
        Namespace=optional("SULINA_METRICS", "Sulina"),
        MetricData=[
            {"MetricName": name, "Value": value, "Unit": "None", "Dimensions": dimensions}
            for name, value in values.items()
        ],
    )
