"""Brokers: containers without state on Fargate, behind the load balancer.

Each is named after its own host and tells the others its address; clients are told the load
balancer's name. One that stops hands its topics over first, so deployments and scaling lose
nothing; new ones come before old ones go.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra import ports
from infra.balancer import DOORS, Balancer
from infra.certificates import FILES, may_read
from infra.config import Settings
from infra.containers import hardened
from infra.coordination import Coordination
from infra.ground import Ground
from infra.logs import log_group
from infra.storage import Storage
from infra.tier import Tier

PART = "broker"


class Brokers(Tier):
    """The service, its containers, and the name by which functions find them."""

    def __init__(
        self,
        ground: Ground,
        coordination: Coordination,
        storage: Storage,
        balancer: Balancer,
        parent: pulumi.Resource,
    ) -> None:
        settings, place, keys = ground.settings, ground.place, ground.keys
        images, containers = ground.images, ground.containers
        super().__init__("Brokers", settings, place, parent)
        self.log = log_group(self, PART, keys.operations.arn)
        self.registry = ground.names.service(self, "brokers", 10)
        self.internal_url = f"http://brokers.{ground.names.domain}:{ports.HTTP}"
        secrets = {"SULINA_ROOT_TOKEN": keys.token.arn}
        readable = [keys.token.arn]
        if ground.certificates is not None:
            credential = ground.certificates.issue(PART, [])
            readable.append(credential.secret.arn)
            for name, file in zip(("CA", "CERT", "KEY"), FILES, strict=True):
                for whom in ("ETCD", "STORAGE"):
                    secrets[f"SULINA_BROKER_{whom}_{name}"] = credential.value_of(file)
        starter = containers.starter(PART, may_read(self, keys, readable))
        environment = broker_environment(settings, coordination.url, storage.nodes)
        variables: list[dict[str, pulumi.Input[str]]] = [
            {"name": name, "value": value} for name, value in environment.items()
        ]
        variables += [
            {"name": "SULINA_BROKER_PROXY", "value": balancer.url(ports.BINARY)},
            {"name": "SULINA_BROKER_GRPC_PROXY", "value": balancer.url(ports.GRPC)},
        ]
        container = {
            "name": PART,
            "image": images.reference(PART),
            **hardened(settings.shell),
            "portMappings": [{"containerPort": port, "protocol": "tcp"} for port in ports.BROKER],
            "environment": variables,
            "secrets": [{"name": name, "valueFrom": where} for name, where in secrets.items()],
            "logConfiguration": containers.logging(PART, PART),
        }
        definition = aws.ecs.TaskDefinition(
            PART,
            family=self.named(PART),
            requires_compatibilities=["FARGATE"],
            network_mode="awsvpc",
            cpu=str(settings.brokers.cpu),
            memory=str(settings.brokers.memory),
            runtime_platform={
                "cpu_architecture": settings.architecture.upper(),
                "operating_system_family": "LINUX",
            },
            execution_role_arn=starter.arn,
            task_role_arn=containers.runner(PART, []).arn,
            container_definitions=pulumi.Output.json_dumps([container]),
            opts=self.within(),
        )
        self.service = aws.ecs.Service(
            PART,
            name=self.named(PART),
            cluster=containers.cluster.arn,
            task_definition=definition.arn,
            launch_type="FARGATE",
            desired_count=settings.brokers.least if settings.runs else 0,
            deployment_minimum_healthy_percent=100,
            deployment_maximum_percent=200,
            deployment_circuit_breaker={"enable": True, "rollback": True},
            availability_zone_rebalancing="ENABLED",
            health_check_grace_period_seconds=120,
            enable_execute_command=settings.shell,
            enable_ecs_managed_tags=True,
            propagate_tags="SERVICE",
            network_configuration={
                "subnets": [subnet.id for subnet in ground.network.work],
                "security_groups": [ground.firewall.group("brokers")],
                "assign_public_ip": False,
            },
            load_balancers=[
                {"target_group_arn": target.arn, "container_name": PART, "container_port": port}
                for port, target in balancer.targets.items()
            ],
            service_registries={"registry_arn": self.registry.arn},
            wait_for_steady_state=settings.runs,
            opts=self.within(
                # How many there are is autoscaling's business once they run.
                ignore_changes=["desiredCount"] if settings.runs else [],
                depends_on=[
                    *balancer.listeners,
                    *(member.service for member in coordination.members),
                    *(member.service for member in storage.members),
                ],
            ),
        )
        self.register_outputs({"service": self.service.name, "doors": list(DOORS.values())})


def broker_environment(settings: Settings, etcd: str, nodes: str) -> dict[str, str]:
    """A broker's options, as its container reads them from the environment."""
    copies = min(3, settings.storage.count)
    return {
        "SULINA_BROKER_ETCD": etcd,
        "SULINA_BROKER_STORAGE_NODE": nodes,
        "SULINA_BROKER_WRITE_QUORUM": str(copies),
        "SULINA_BROKER_ACK_QUORUM": str(copies // 2 + 1),
        "SULINA_BROKER_LEASE_SECONDS": str(settings.brokers.lease_seconds),
        # A quarter of the memory for fresh messages leaves room for connections and Python.
        "SULINA_BROKER_CACHE_MB": str(settings.brokers.memory // 4),
    }
