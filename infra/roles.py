"""Roles: one for each part, with its own policy written into it."""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.policies import Statement, document, trust
from infra.tier import Tier


def role(
    tier: Tier,
    name: str,
    trusted: pulumi.Input[str],
    statements: Sequence[Statement],
    managed: Sequence[str] = (),
) -> aws.iam.Role:
    """A role that ``trusted`` may take, and what it may do."""
    made = aws.iam.Role(
        name,
        name=tier.named(name),
        assume_role_policy=trusted,
        opts=tier.within(),
    )
    if statements:
        aws.iam.RolePolicy(
            name,
            name="permissions",
            role=made.name,
            policy=document(statements),
            opts=tier.within(),
        )
    for each in managed:
        aws.iam.RolePolicyAttachment(
            f"{name}-{each.rpartition('/')[2]}",
            role=made.name,
            policy_arn=each,
            opts=tier.within(),
        )
    return made


def trusts_tasks(tier: Tier) -> pulumi.Output[str]:
    """For roles of containers: ECS takes them for tasks of this account's clusters."""
    place = tier.place
    return trust("ecs-tasks.amazonaws.com", place.account, place.arn("ecs", "*"))
