"""Log groups: one for each part, encrypted, and gone after the days that were chosen."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.policies import Statement, allow
from infra.tier import Tier


def log_name(tier: Tier, part: str) -> str:
    """The name of a part's group."""
    return f"/{tier.settings.prefix}/{part}"


def log_group(tier: Tier, part: str, key: pulumi.Input[str]) -> aws.cloudwatch.LogGroup:
    """The group that a part writes to."""
    return aws.cloudwatch.LogGroup(
        part,
        name=log_name(tier, part),
        retention_in_days=tier.settings.log_days,
        kms_key_id=key,
        opts=tier.within(),
    )


def may_log(tier: Tier, part: str) -> Statement:
    """What writing to that group takes; nobody may make groups."""
    group = tier.place.arn("logs", f"log-group:{log_name(tier, part)}")
    return allow("Logs", ["logs:CreateLogStream", "logs:PutLogEvents"], [f"{group}:*"])
