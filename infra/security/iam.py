"""IAM roles, and policy documents without wildcards.

A statement lists its actions and resources one by one. ``allow_any_resource`` exists for the few
actions that AWS cannot restrict to a resource and accepts no others, so that a wildcard cannot slip
in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.component import Component
from infra.errors import DeploymentError

Text = pulumi.Input[str]
Statement = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Role:
    """A role's name and ARN.

    Whatever uses them depends on the role's permissions too: it is created after them and deleted
    before them. Lambda, for example, needs them until it has removed a function's network
    interfaces, which would otherwise block the deletion of the subnets.
    """

    name: pulumi.Output[str]
    arn: pulumi.Output[str]


_WITHOUT_RESOURCE = {
    "cloudwatch:PutMetricData",
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeInstances",
    "ec2:DescribeNetworkInterfaces",
    "ec2:DescribeSnapshots",
    "ec2:DescribeVolumes",
    "ecr:GetAuthorizationToken",
    "ecs:DiscoverPollEndpoint",
    "ssmmessages:CreateControlChannel",
    "ssmmessages:CreateDataChannel",
    "ssmmessages:OpenControlChannel",
    "ssmmessages:OpenDataChannel",
}
"""Actions for which AWS defines no resource: only a condition can restrict them."""


def allow(
    sid: str,
    actions: Sequence[str],
    resources: Sequence[Text],
    when: Mapping[str, Any] | None = None,
) -> Statement:
    """Allow actions on resources.

    Raises ``DeploymentError`` for a wildcard in an action or as a resource.
    """
    for action in actions:
        if "*" in action:
            raise DeploymentError(f"statement {sid} allows {action}: list the actions one by one")
    if "*" in resources:
        raise DeploymentError(f"statement {sid} allows every resource: list the ones it needs")
    return _statement(sid, "Allow", actions, list(resources), when)


def allow_any_resource(
    sid: str, actions: Sequence[str], when: Mapping[str, Any] | None = None
) -> Statement:
    """Allow actions for which AWS defines no resource. Raises ``DeploymentError`` for others."""
    for action in actions:
        if action not in _WITHOUT_RESOURCE:
            raise DeploymentError(
                f"statement {sid} allows {action} on every resource: list the ones it needs"
            )
    return _statement(sid, "Allow", actions, ["*"], when)


def deny(
    sid: str, actions: Sequence[str], resources: Sequence[Text], when: Mapping[str, Any]
) -> Statement:
    """Deny actions under a condition, overriding every allow."""
    return _statement(sid, "Deny", actions, list(resources), when)


def allow_principal(
    sid: str,
    principal: Any,
    actions: str | Sequence[str],
    resources: Any = "*",
    when: Mapping[str, Any] | None = None,
) -> Statement:
    """Allow actions to a principal, in the policy of a resource: there, "*" is that resource."""
    found = {"Sid": sid, "Effect": "Allow", "Principal": principal, "Action": actions}
    return {**found, "Resource": resources, **({"Condition": when} if when else {})}


def document(statements: Sequence[Statement]) -> pulumi.Output[str]:
    """A policy document as JSON, resolved once all its ARNs are known."""
    return pulumi.Output.json_dumps({"Version": "2012-10-17", "Statement": list(statements)})


def trust(service: str, account: str, source: Text | None = None) -> pulumi.Output[str]:
    """A trust policy: one AWS service may assume the role, on behalf of this account only."""
    when: dict[str, Any] = {"StringEquals": {"aws:SourceAccount": account}}
    if source is not None:
        when["ArnLike"] = {"aws:SourceArn": source}
    return document([{**_trusted(service), "Condition": when}])


def trust_unconditionally(service: str) -> pulumi.Output[str]:
    """A trust policy for services that send no source account.

    Only principals with ``iam:PassRole`` can hand such a role to the service.
    """
    return document([_trusted(service)])


def role(
    component: Component,
    name: str,
    trust_policy: pulumi.Input[str],
    statements: Sequence[Statement],
) -> Role:
    """A role with its trust policy and, as one inline policy, its permissions."""
    made = aws.iam.Role(
        name,
        name=component.named(name),
        assume_role_policy=trust_policy,
        opts=component.within(),
    )
    if not statements:
        return Role(made.name, made.arn)
    policy = aws.iam.RolePolicy(
        name,
        name="permissions",
        role=made.name,
        policy=document(statements),
        opts=component.within(),
    )
    given = pulumi.Output.all(made.name, made.arn, policy.id)
    return Role(given[0], given[1])


def _trusted(service: str) -> dict[str, Any]:
    return {
        "Sid": "Service",
        "Effect": "Allow",
        "Principal": {"Service": service},
        "Action": "sts:AssumeRole",
    }


def _statement(
    sid: str,
    effect: str,
    actions: Sequence[str],
    resources: Sequence[Text],
    when: Mapping[str, Any] | None,
) -> Statement:
    found: dict[str, Any] = {
        "Sid": sid,
        "Effect": effect,
        "Action": list(actions),
        "Resource": list(resources),
    }
    if when:
        found["Condition"] = dict(when)
    return found
