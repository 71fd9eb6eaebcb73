"""Figures of members, made out of what the container ``watch`` beside each of them logs."""

from __future__ import annotations

from collections.abc import Mapping

import pulumi_aws as aws

from infra.figures import CERTIFICATE, DIMENSION, DISK, MEMBER, NAMESPACE
from infra.tier import Tier


def member_figures(tier: Tier, kind: str, log: aws.cloudwatch.LogGroup) -> None:
    """Makes the figures of all members of a kind, whose log this is."""
    cluster = {DIMENSION: "$.cluster"}
    _figure(tier, f"{kind}-disk", log, DISK, "disk_used_percent", {**cluster, MEMBER: "$.member"})
    if tier.settings.inside_tls:
        # One for all of them: the one that ends first is what matters.
        _figure(tier, f"{kind}-certificates", log, CERTIFICATE, "certificate_days", cluster)


def _figure(
    tier: Tier,
    name: str,
    log: aws.cloudwatch.LogGroup,
    figure: str,
    field: str,
    dimensions: Mapping[str, str],
) -> None:
    """``field`` is storage_grpc/container/member_watch.py's name for it."""
    aws.cloudwatch.LogMetricFilter(
        name,
        name=tier.named(name),
        log_group_name=log.name,
        pattern=f"{{ $.{field} >= 0 }}",
        metric_transformation={
            "name": figure,
            "namespace": NAMESPACE,
            "value": f"$.{field}",
            "dimensions": dimensions,
        },
        opts=tier.within(),
    )
