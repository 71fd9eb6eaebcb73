"""Brokers: stateless containers on Fargate, behind the load balancer.

A broker is named after its host and publishes its own address to the other brokers and to clients
that use the internal name ``brokers``, and the load balancer's to others. All brokers have the same
certificate, for the internal name, because their addresses are not known in advance. A stopping
broker transfers its topics first, and a deployment starts new brokers before it stops old ones.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.cluster.containers import FARGATE, FARGATE_SPOT, PATIENCE, hardened
from infra.cluster.etcd import Etcd
from infra.cluster.load_balancer import LISTENERS, LoadBalancer
from infra.cluster.rollback import check_runs
from infra.cluster.shared import SharedResources
from infra.cluster.storage_nodes import StorageNodeGroup
from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.network import ports
from infra.network.addresses import subnets
from infra.security.certificates import FILES
from infra.telemetry.logs import log_group

SERVICE = "broker"


class BrokerService(Component):
    """The ECS service, and the internal name with which functions find it."""

    def __init__(
        self,
        shared: SharedResources,
        etcd: Etcd,
        storage: StorageNodeGroup,
        balancer: LoadBalancer,
        parent: Deployment,
    ) -> None:
        super().__init__("Brokers", parent)
        settings, keys, containers = self.settings, shared.keys, shared.containers
        self.log = log_group(self, SERVICE, keys.operations.arn)
        self.registry = shared.dns.service(self, "brokers", 10)
        self.host = f"brokers.{shared.dns.domain}"
        tls = shared.certificates is not None
        self.internal_url = f"{'https' if tls else 'http'}://{self.host}:{ports.HTTP}"
        self.direct_url = f"{'sulina+tls' if tls else 'sulina'}://{self.host}:{ports.BINARY}"
        secrets = {"SULINA_ROOT_TOKEN": keys.token.arn}
        readable = [keys.token.arn]
        if shared.certificates is not None:
            passed_through = [balancer.host] if settings.tls_ends_at == "broker" else []
            credential = shared.certificates.issue(SERVICE, [self.host, *passed_through])
            readable.append(credential.secret.arn)
            for name, file in zip(("CA", "CERT", "KEY"), FILES, strict=True):
                for server in ("ETCD", "STORAGE", "PEER" if name == "CA" else "TLS"):
                    secrets[f"SULINA_BROKER_{server}_{name}"] = credential.value_of(file)
        environment = broker_environment(settings, self.host, etcd.url, storage.nodes)
        variables: list[dict[str, pulumi.Input[str]]] = [
            {"name": name, "value": value} for name, value in environment.items()
        ]
        variables += [
            {"name": "SULINA_BROKER_ZONES", "value": self._zones()},
            {"name": "SULINA_BROKER_PROXY", "value": balancer.url(ports.BINARY)},
            {"name": "SULINA_BROKER_GRPC_PROXY", "value": balancer.url(ports.GRPC)},
        ]
        container = {
            "name": SERVICE,
            "image": shared.images.reference(SERVICE),
            **hardened(settings.shell),
            "portMappings": [{"containerPort": port, "protocol": "tcp"} for port in ports.BROKER],
            "environment": variables,
            "secrets": [{"name": name, "valueFrom": where} for name, where in secrets.items()],
            "logConfiguration": containers.logging(SERVICE, SERVICE),
        }
        definition = aws.ecs.TaskDefinition(
            SERVICE,
            family=self.named(SERVICE),
            requires_compatibilities=["FARGATE"],
            network_mode="awsvpc",
            cpu=str(settings.brokers.cpu),
            memory=str(settings.brokers.memory),
            runtime_platform={
                "cpu_architecture": settings.architecture.upper(),
                "operating_system_family": "LINUX",
            },
            execution_role_arn=containers.execution_role(SERVICE, keys.may_read(readable)).arn,
            task_role_arn=containers.task_role(SERVICE, []).arn,
            container_definitions=pulumi.Output.json_dumps([container]),
            opts=self.within(),
        )
        self.service = aws.ecs.Service(
            SERVICE,
            name=self.named(SERVICE),
            cluster=containers.cluster.arn,
            task_definition=definition.arn,
            # Not a launch type, which could not be changed to and from spare capacity. One broker
            # stays when AWS takes all of that back.
            capacity_provider_strategies=[
                {"capacity_provider": FARGATE, "base": 1, "weight": 0},
                {"capacity_provider": FARGATE_SPOT, "weight": 1},
            ]
            if settings.brokers.spot
            else [{"capacity_provider": FARGATE, "weight": 1}],
            desired_count=settings.brokers.minimum if settings.runs else 0,
            deployment_minimum_healthy_percent=100,
            deployment_maximum_percent=200,
            deployment_circuit_breaker={"enable": True, "rollback": True},
            # ECS demands it to change where brokers run.
            force_new_deployment=True,
            availability_zone_rebalancing="ENABLED",
            health_check_grace_period_seconds=120,
            enable_execute_command=settings.shell,
            enable_ecs_managed_tags=True,
            propagate_tags="SERVICE",
            network_configuration={
                "subnets": [subnet.id for subnet in shared.network.work],
                "security_groups": [shared.firewall.group_id("brokers")],
                "assign_public_ip": False,
            },
            load_balancers=[
                {"target_group_arn": target.arn, "container_name": SERVICE, "container_port": port}
                for port, target in balancer.targets.items()
            ],
            service_registries={"registry_arn": self.registry.arn},
            wait_for_steady_state=settings.runs,
            opts=self.within(
                # Once brokers run, autoscaling sets their number.
                ignore_changes=["desiredCount"] if settings.runs else [],
                custom_timeouts=pulumi.CustomTimeouts(create=PATIENCE, update=PATIENCE),
                depends_on=[
                    *balancer.listeners,
                    containers.capacity,
                    *(member.service for member in etcd.members),
                    *(member.service for member in storage.members),
                ],
            ),
        )
        check_runs(self, self.service, definition)
        self.register_outputs({"service": self.service.name, "listeners": [*LISTENERS.values()]})

    def _zones(self) -> str:
        """From a broker's address follows its zone, which no variable of Fargate tells it."""
        blocks = subnets(self.settings.network)
        return ",".join(
            f"{block.work}={zone}" for block, zone in zip(blocks, self.region.zones, strict=True)
        )


def broker_environment(settings: StackSettings, host: str, etcd: str, nodes: str) -> dict[str, str]:
    """The environment variables from which a broker's container reads its options."""
    copies = min(3, settings.storage.count)
    authorities, policies = settings.endpoint.client_authorities, settings.brokers.policies
    return {
        "SULINA_BROKER_SHARED_NAME": host,
        **({"SULINA_BROKER_TLS_CLIENT_CA": authorities} if authorities else {}),
        **({"SULINA_BROKER_POLICY": ",".join(policies)} if policies else {}),
        "SULINA_BROKER_ETCD": etcd,
        "SULINA_BROKER_STORAGE_NODE": nodes,
        "SULINA_BROKER_WRITE_QUORUM": str(copies),
        "SULINA_BROKER_ACK_QUORUM": str(copies // 2 + 1),
        "SULINA_BROKER_LEASE_SECONDS": str(settings.brokers.lease_seconds),
        # A quarter of the memory for recent messages leaves room for connections and Python.
        "SULINA_BROKER_CACHE_MB": str(settings.brokers.memory // 4),
    }
