"""Encrypted log groups, one per service or function, with the configured retention."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.component import Component
from infra.security.iam import Statement, allow


def log_name(component: Component, service: str) -> str:
    """The name of a service's log group."""
    return f"/{component.settings.prefix}/{service}"


def log_group(
    component: Component, service: str, key: pulumi.Input[str]
) -> aws.cloudwatch.LogGroup:
    """The log group of a service."""
    return aws.cloudwatch.LogGroup(
        service,
        name=log_name(component, service),
        retention_in_days=component.settings.log_days,
        kms_key_id=key,
        opts=component.within(),
    )


def may_log(component: Component, service: str) -> Statement:
    """The permission to write to a service's log group, but not to create groups."""
    group = component.region.arn("logs", f"log-group:{log_name(component, service)}")
    return allow("Logs", ["logs:CreateLogStream", "logs:PutLogEvents"], [f"{group}:*"])
