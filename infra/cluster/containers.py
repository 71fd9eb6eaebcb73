"""The ECS cluster in which every container runs, and the IAM roles of containers.

Each service has two roles: with the execution role ECS starts it (pulls its image, opens its log,
reads its secrets); its containers run with the task role.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.cluster.images import Images
from infra.cluster.user_data import USER
from infra.component import Component, Deployment
from infra.security.iam import (
    Role,
    Statement,
    allow,
    allow_any_resource,
    role,
    trust,
    trust_unconditionally,
)
from infra.telemetry.logs import log_name, may_log

FARGATE = "FARGATE"
FARGATE_SPOT = "FARGATE_SPOT"
"""Spare capacity for about 30 % of the price; AWS takes it back with two minutes' notice."""
PATIENCE = "30m"
"""How long Pulumi waits for a service: longer than ECS needs to find three containers unhealthy."""
STOP_SECONDS = 60
"""The time that a container has to stop: a broker transfers its topics first."""


def hardened(shell: bool) -> dict[str, Any]:
    """The settings of every container: it can write to its volumes and to memory, nowhere else."""
    return {
        "essential": True,
        "user": f"{USER}:{USER}",
        # An operator's shell (ECS Exec) needs a writable root file system.
        "readonlyRootFilesystem": not shell,
        "stopTimeout": STOP_SECONDS,
        "linuxParameters": {
            "initProcessEnabled": True,
            "capabilities": {"drop": ["ALL"]},
            # For protoc's temporary files; a Docker volume would belong to root.
            "tmpfs": [{"containerPath": "/tmp", "size": 64}],
        },
        "ulimits": [{"name": "nofile", "softLimit": 65_536, "hardLimit": 65_536}],
    }


class Containers(Component):
    """The ECS cluster, and what all its containers have in common."""

    def __init__(self, images: Images, parent: Deployment) -> None:
        super().__init__("Containers", parent)
        self.images = images
        self.cluster = aws.ecs.Cluster(
            "cluster",
            name=self.named("cluster"),
            # Alarms and the dashboard need only the metrics that ECS publishes for free.
            settings=[{"name": "containerInsights", "value": "disabled"}],
            opts=self.within(),
        )
        self.capacity = aws.ecs.ClusterCapacityProviders(
            "cluster",
            cluster_name=self.cluster.name,
            capacity_providers=[FARGATE, FARGATE_SPOT],
            opts=self.within(),
        )
        self.register_outputs({"cluster": self.cluster.name})

    def execution_role(
        self, service: str, more: Sequence[Statement] = (), images: Iterable[str] = ()
    ) -> Role:
        """The role with which ECS starts a service; ``images`` defaults to the service's own."""
        pull = self.images.may_pull(list(images) or [service])
        statements = [*pull, may_log(self, service), *more]
        return role(self, f"{service}-execution", self._trust_tasks(), statements)

    def task_role(self, service: str, statements: Sequence[Statement]) -> Role:
        """The role with which a service's containers run."""
        shell = [
            allow_any_resource(
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
        return role(self, f"{service}-task", self._trust_tasks(), given)

    def _trust_tasks(self) -> pulumi.Output[str]:
        """A trust policy for ECS tasks of this account."""
        region = self.region
        return trust("ecs-tasks.amazonaws.com", region.account, region.arn("ecs", "*"))

    def instance_profile(self, service: str) -> aws.iam.InstanceProfile:
        """The rights of a service's machines: to join this cluster, and nothing else."""
        cluster = self.region.arn("ecs", f"cluster/{self.named('cluster')}")
        instances = self.region.arn("ecs", f"container-instance/{self.named('cluster')}/*")
        made = role(
            self,
            f"{service}-machine",
            trust_unconditionally("ec2.amazonaws.com"),
            [
                allow_any_resource("Find", ["ecs:DiscoverPollEndpoint"]),
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
            f"{service}-machine",
            name=self.named(f"{service}-machine"),
            role=made.name,
            opts=self.within(),
        )

    def logging(self, service: str, stream: str) -> Mapping[str, Any]:
        """The log configuration of a container."""
        return {
            "logDriver": "awslogs",
            "options": {
                "awslogs-group": log_name(self, service),
                "awslogs-region": self.region.name,
                "awslogs-stream-prefix": stream,
                # A container must not block because its log cannot be written.
                "mode": "non-blocking",
                "max-buffer-size": "4m",
            },
        }
