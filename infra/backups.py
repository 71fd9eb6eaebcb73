"""Copies of volumes every hour, kept for two days, made by AWS itself (Data Lifecycle Manager)."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.policies import allow, anywhere, trust
from infra.roles import role
from infra.tier import Place, Tier

_KEPT = 48


class Backups(Tier):
    """Hourly snapshots of the volumes of one kind of member."""

    def __init__(
        self, settings: Settings, place: Place, kind: str, parent: pulumi.Resource
    ) -> None:
        super().__init__("Backups", settings, place, parent)
        tag = f"{settings.prefix}-{kind}"
        snapshots = f"arn:{place.partition}:ec2:{place.region}::snapshot/*"
        made = role(
            self,
            f"{kind}-backup",
            trust("dlm.amazonaws.com", place.account, place.arn("dlm", "policy/*")),
            [
                anywhere("Look", ["ec2:DescribeVolumes", "ec2:DescribeSnapshots"]),
                allow(
                    "CopyVolumes",
                    ["ec2:CreateSnapshot"],
                    [place.arn("ec2", "volume/*")],
                    {"StringEquals": {"aws:ResourceTag/Backup": tag}},
                ),
                allow("MakeCopies", ["ec2:CreateSnapshot"], [snapshots]),
                allow(
                    "TagCopies",
                    ["ec2:CreateTags"],
                    [snapshots],
                    {"StringEquals": {"ec2:CreateAction": "CreateSnapshot"}},
                ),
                allow(
                    "DropOldCopies",
                    ["ec2:DeleteSnapshot"],
                    [snapshots],
                    {"StringEquals": {"aws:ResourceTag/Backup": tag}},
                ),
            ],
        )
        aws.dlm.LifecyclePolicy(
            kind,
            description=f"Hourly copies of {kind} volumes",
            execution_role_arn=made.arn,
            state="ENABLED",
            policy_details={
                "resource_types": ["VOLUME"],
                "target_tags": {"Backup": tag},
                "schedules": [
                    {
                        "name": "hourly",
                        "create_rule": {"interval": 1, "interval_unit": "HOURS"},
                        "retain_rule": {"count": _KEPT},
                        "copy_tags": True,
                    }
                ],
            },
            opts=self.within(),
        )
        self.register_outputs({})
