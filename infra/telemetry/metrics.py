"""The names of Sulina's metrics in CloudWatch, and the metrics derived from members' logs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pulumi_aws as aws

from infra.component import Component

NAMESPACE: Final = "Sulina"
CLUSTER: Final = "Cluster"
"""A dimension: the prefix of the deployment."""
MEMBER: Final = "Member"
"""A dimension: the name of a member."""
LOAD: Final = "BrokerLoad"
UNASSIGNED: Final = "TopicsUnassigned"
DISK: Final = "DiskUsed"
"""Percent of a member's volume."""
CERTIFICATE: Final = "CertificateDays"
"""Days until an internal certificate expires."""


def member_metrics(component: Component, group: str, log: aws.cloudwatch.LogGroup) -> None:
    """Create the metrics of a member group, from the lines that its ``watch`` sidecars log."""
    cluster = {CLUSTER: "$.cluster"}
    member = {**cluster, MEMBER: "$.member"}
    _metric(component, f"{group}-disk", log, DISK, "disk_used_percent", member)
    if component.settings.internal_tls:
        # One metric for all members: the certificate that expires first matters.
        _metric(component, f"{group}-certificates", log, CERTIFICATE, "certificate_days", cluster)


def _metric(
    component: Component,
    name: str,
    log: aws.cloudwatch.LogGroup,
    metric: str,
    field: str,
    dimensions: Mapping[str, str],
) -> None:
    """``field`` is the name of the value in the lines of storage_grpc/container/member_watch.py."""
    aws.cloudwatch.LogMetricFilter(
        name,
        name=component.named(name),
        log_group_name=log.name,
        pattern=f"{{ $.{field} >= 0 }}",
        metric_transformation={
            "name": metric,
            "namespace": NAMESPACE,
            "value": f"$.{field}",
            "dimensions": dimensions,
        },
        opts=component.within(),
    )
