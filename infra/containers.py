"""The cluster of ECS in which every container runs, and the roles that containers have.

Each part has two roles: one that ECS uses to start it (pull its image, open its log, read its
secret), and one that the part itself has while it runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.boot import USER
from infra.config import Settings
from infra.images import Images
from infra.logs import log_name, may_log
from infra.policies import Statement, allow, anywhere, trust_plainly
from infra.roles import role, trusts_tasks
from infra.tier import Place, Tier

STOP_SECONDS = 60
"""How long a container may take to end: a broker hands its topics over before."""


def hardened(shell: bool) -> dict[str, Any]:
    """What every container has in common: it can write to its volume and nowhere else."""
    return {
        "essential": True,
        "user": f"{USER}:{USER}",
        # A shell for operators needs to write beside the volume.
        "readonlyRootFilesystem": not shell,
        "stopTimeout": STOP_SECONDS,
        "linuxParameters": {
            "initProcessEnabled": True,
            "capabilities": {"drop": ["ALL"]},
            # For protoc's files; a volume here would be root's alone.
            "tmpfs": [{"containerPath": "/tmp", "size": 64}],
        },
        "ulimits": [{"name": "nofile", "softLimit": 65_536, "hardLimit": 65_536}],
    }


class Containers(Tier):
    """The cluster, and what is the same for all its containers."""

    def __init__(
        self, settings: Settings, place: Place, images: Images, parent: pulumi.Resource
    ) -> None:
        super().__init__("Containers", settings, place, parent)
        self.images = images
        self.cluster = aws.ecs.Cluster(
            "cluster",
            name=self.named("cluster"),
            settings=[{"name": "containerInsights", "value": "enabled"}],
            opts=self.within(),
        )
        self.register_outputs({"cluster": self.cluster.name})

    def starter(
        self, part: str, more: Sequence[Statement] = (), images: Iterable[str] = ()
    ) -> aws.iam.Role:
        """The role with which ECS starts a part; its images are the part's own if not told."""
        pull = self.images.may_pull(list(images) or [part])
        statements = [*pull, may_log(self, part), *more]
        return role(self, f"{part}-start", trusts_tasks(self), statements)

    def runner(self, part: str, statements: Sequence[Statement]) -> aws.iam.Role:
        """The role that a part has while it runs."""
        shell = [
            anywhere(
                "Shell",
                [
                    "ssmmessages:CreateControlChannel",
                    "ssmmessages:CreateDataChannel",
                    "ssmmessages:OpenControlChannel",
                    "ssmmessages:OpenDataChannel",
                ],
            )
        ]
        given = [*statements, *(shell if self.settings.shell else [])]
        return role(self, f"{part}-run", trusts_tasks(self), given)

    def machines(self, part: str) -> aws.iam.InstanceProfile:
        """What the machines of a part may do: be a machine of this cluster, and nothing else."""
        cluster = self.place.arn("ecs", f"cluster/{self.named('cluster')}")
        instances = self.place.arn("ecs", f"container-instance/{self.named('cluster')}/*")
        made = role(
            self,
            f"{part}-machine",
            trust_plainly("ec2.amazonaws.com"),
            [
                anywhere("Find", ["ecs:DiscoverPollEndpoint"]),
                allow(
                    "Join",
                    [
                        "ecs:RegisterContainerInstance",
                        "ecs:DeregisterContainerInstance",
                        "ecs:SubmitAttachmentStateChanges",
                        "ecs:SubmitContainerStateChange",
                        "ecs:SubmitTaskStateChange",
                    ],
                    [cluster],
                ),
                allow(
                    "Serve",
                    ["ecs:Poll", "ecs:StartTelemetrySession"],
                    [instances],
                    {"ArnEquals": {"ecs:cluster": cluster}},
                ),
            ],
        )
        return aws.iam.InstanceProfile(
            f"{part}-machine",
            name=self.named(f"{part}-machine"),
            role=made.name,
            opts=self.within(),
        )

    def logging(self, part: str, stream: str) -> Mapping[str, Any]:
        """Where a container's output goes."""
        return {
            "logDriver": "awslogs",
            "options": {
                "awslogs-group": log_name(self, part),
                "awslogs-region": self.place.region,
                "awslogs-stream-prefix": stream,
                # A log that can't be written must not hold up who writes it.
                "mode": "non-blocking",
                "max-buffer-size": "4m",
            },
        }
