"""Policy documents: what a part may do, said in as few words as AWS allows.

A statement names its actions and resources one by one. The few actions that AWS knows for no
resource in particular are said with ``anywhere``, which takes nothing else: no star gets in by
accident.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pulumi

from infra.wrong import Wrong

Text = pulumi.Input[str]
Statement = Mapping[str, Any]

_ANYWHERE = {
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
"""Actions for which AWS defines no resource, so that only a star, or a condition, can be said."""


def allow(
    sid: str,
    actions: Sequence[str],
    resources: Sequence[Text],
    when: Mapping[str, Any] | None = None,
) -> Statement:
    """These actions on these resources. A star in an action or as a resource is refused."""
    for action in actions:
        if "*" in action:
            raise Wrong(f"statement {sid} allows {action}: name the actions one by one")
    if "*" in resources:
        raise Wrong(f"statement {sid} allows every resource: name those that are needed")
    return _statement(sid, "Allow", actions, list(resources), when)


def anywhere(sid: str, actions: Sequence[str], when: Mapping[str, Any] | None = None) -> Statement:
    """Actions that AWS knows for no resource in particular."""
    for action in actions:
        if action not in _ANYWHERE:
            raise Wrong(f"statement {sid} allows {action} anywhere: it can be narrowed")
    return _statement(sid, "Allow", actions, ["*"], when)


def deny(
    sid: str, actions: Sequence[str], resources: Sequence[Text], when: Mapping[str, Any]
) -> Statement:
    """What is refused under a condition, whatever else allows it."""
    return _statement(sid, "Deny", actions, list(resources), when)


def document(statements: Sequence[Statement]) -> pulumi.Output[str]:
    """The document as JSON, when all names in it are known."""
    return pulumi.Output.json_dumps({"Version": "2012-10-17", "Statement": list(statements)})


def trust(service: str, account: str, source: Text | None = None) -> pulumi.Output[str]:
    """Who may take a role: one service of AWS, and only when it acts for this account."""
    when: dict[str, Any] = {"StringEquals": {"aws:SourceAccount": account}}
    if source is not None:
        when["ArnLike"] = {"aws:SourceArn": source}
    return document([{**_trusted(service), "Condition": when}])


def trust_plainly(service: str) -> pulumi.Output[str]:
    """For services that give no source: the role can still only be passed by who deploys."""
    return document([_trusted(service)])


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
