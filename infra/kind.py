"""What all members of one kind, etcd or storage nodes, share: roles, log, machine image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.certificates import Credential
from infra.config import Members
from infra.ground import Ground
from infra.logs import log_group
from infra.policies import Statement
from infra.tier import Tier
from infra.watched import member_figures


@dataclass(frozen=True, slots=True)
class Kind:
    """Etcd, or storage nodes."""

    name: str
    ground: Ground
    sizes: Members
    snapshots: bool
    """Whether volumes are copied."""
    image_id: str
    """The machine's image (AMI)."""
    profile: pulumi.Input[str]
    execution_role: pulumi.Input[str]
    task_role: pulumi.Input[str]


def kind_of_member(
    tier: Tier,
    ground: Ground,
    name: str,
    sizes: Members,
    may: Sequence[Statement],
    snapshots: bool,
    credentials: Sequence[Credential],
) -> Kind:
    """Makes the roles and the log of a kind; ``may`` is what its containers may do."""
    secrets = ground.certificates.may_read(credentials) if ground.certificates else []
    log = log_group(tier, name, ground.keys.operations.arn)
    member_figures(tier, name, log)
    # The containers beside a member have the storage node's image.
    images = dict.fromkeys((name, "storage"))
    return Kind(
        name=name,
        ground=ground,
        sizes=sizes,
        snapshots=snapshots,
        image_id=_machine_image(tier),
        profile=ground.containers.machines(name).name,
        execution_role=ground.containers.starter(name, secrets, images).arn,
        task_role=ground.containers.runner(name, may).arn,
    )


def _machine_image(tier: Tier) -> str:
    """The newest image of Amazon Linux that has ECS's agent, for the architecture."""
    arm = "/arm64" if tier.settings.architecture == "arm64" else ""
    name = f"/aws/service/ecs/optimized-ami/amazon-linux-2023{arm}/recommended"
    found = aws.ssm.get_parameter(name=f"{name}/image_id", opts=pulumi.InvokeOptions(parent=tier))
    return str(found.value)
