"""Hourly snapshots of volumes, kept for two days, taken by AWS Data Lifecycle Manager."""

from __future__ import annotations

import pulumi_aws as aws

from infra.component import Component
from infra.security.iam import allow, allow_any_resource, role, trust

_KEPT = 48


class Backups(Component):
    """Hourly snapshots of the volumes of one member group."""

    def __init__(self, group: str, parent: Component) -> None:
        super().__init__("Backups", parent)
        region, tag = self.region, self.named(group)
        snapshots = f"arn:{region.partition}:ec2:{region.name}::snapshot/*"
        made = role(
            self,
            f"{group}-backup",
            trust("dlm.amazonaws.com", region.account, region.arn("dlm", "policy/*")),
            [
                allow_any_resource("Describe", ["ec2:DescribeVolumes", "ec2:DescribeSnapshots"]),
                allow(
                    "SnapshotVolumes",
                    ["ec2:CreateSnapshot"],
                    [region.arn("ec2", "volume/*")],
                    {"StringEquals": {"aws:ResourceTag/Backup": tag}},
                ),
                allow("CreateSnapshots", ["ec2:CreateSnapshot"], [snapshots]),
                allow(
                    "TagSnapshots",
                    ["ec2:CreateTags"],
                    [snapshots],
                    {"StringEquals": {"ec2:CreateAction": "CreateSnapshot"}},
                ),
                allow(
                    "DeleteOldSnapshots",
                    ["ec2:DeleteSnapshot"],
                    [snapshots],
                    {"StringEquals": {"aws:ResourceTag/Backup": tag}},
                ),
            ],
        )
        aws.dlm.LifecyclePolicy(
            group,
            description=f"Hourly snapshots of {group} volumes",
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
