"""Security groups: who may open a connection to whom, as one table.

Every row is a pair of rules, one on each side: the caller may leave, the called lets in. What has
no row is closed. Groups have no other rules, and nothing is open to the world but what the
configuration of the endpoint names.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra import ports
from infra.config import Settings
from infra.network import Network
from infra.tier import Place, Tier

GROUPS = {
    "balancer": "The load balancer that clients connect to",
    "brokers": "Brokers",
    "etcd": "etcd",
    "storage": "Storage nodes",
    "functions": "Functions that talk to brokers",
    "spark": "Spark jobs",
    "services": "Private endpoints of AWS's services",
}

WAYS: Sequence[tuple[str, str, Sequence[int]]] = (
    ("balancer", "brokers", ports.BROKER),
    ("brokers", "brokers", (ports.BINARY, ports.GRPC, ports.HTTP)),
    ("brokers", "etcd", (ports.ETCD,)),
    ("brokers", "storage", (ports.STORAGE,)),
    ("etcd", "etcd", (ports.ETCD_PEERS,)),
    # A node that makes an object reads what it lacks of the ledger from others.
    ("storage", "storage", (ports.STORAGE,)),
    ("functions", "brokers", (ports.HTTP,)),
    ("spark", "balancer", (ports.BINARY,)),
    ("brokers", "services", (ports.HTTPS,)),
    ("etcd", "services", (ports.HTTPS,)),
    ("storage", "services", (ports.HTTPS,)),
    ("functions", "services", (ports.HTTPS,)),
    ("spark", "services", (ports.HTTPS,)),
)
TO_S3 = ("brokers", "etcd", "storage", "spark")
"""Who reaches S3 through its gateway: images come from there too."""


class Firewall(Tier):
    """The groups, by name."""

    def __init__(
        self, settings: Settings, place: Place, network: Network, parent: pulumi.Resource
    ) -> None:
        super().__init__("Firewall", settings, place, parent)
        self.groups = {
            name: aws.ec2.SecurityGroup(
                name,
                name=self.named(name),
                description=what,
                vpc_id=network.vpc.id,
                # No rules here: the provider also removes AWS's own, which lets everything out.
                # Those below are resources of their own, so that two groups may name each other.
                opts=self.within(),
            )
            for name, what in GROUPS.items()
        }
        for caller, called, doors in WAYS:
            for port in doors:
                self._way(caller, called, port)
        for port in listened(settings):
            for number, block in enumerate(allowed(settings), 1):
                self._let_in(port, number, block)
        self.register_outputs({})

    def group(self, name: str) -> pulumi.Output[str]:
        """The id of a group."""
        found: pulumi.Output[str] = self.groups[name].id
        return found

    def reach_s3(self, prefixes: pulumi.Input[str]) -> None:
        """Lets those out who need S3, to the addresses that AWS lists for it."""
        for name in TO_S3:
            aws.vpc.SecurityGroupEgressRule(
                f"{name}-to-s3",
                security_group_id=self.group(name),
                prefix_list_id=prefixes,
                ip_protocol="tcp",
                from_port=ports.HTTPS,
                to_port=ports.HTTPS,
                opts=self.within(),
            )

    def _way(self, caller: str, called: str, port: int) -> None:
        name = f"{caller}-to-{called}-{port}"
        aws.vpc.SecurityGroupEgressRule(
            name,
            security_group_id=self.group(caller),
            referenced_security_group_id=self.group(called),
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            opts=self.within(),
        )
        aws.vpc.SecurityGroupIngressRule(
            name,
            security_group_id=self.group(called),
            referenced_security_group_id=self.group(caller),
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            opts=self.within(),
        )

    def _let_in(self, port: int, number: int, block: str) -> None:
        aws.vpc.SecurityGroupIngressRule(
            f"clients-{number}-{port}",
            security_group_id=self.group("balancer"),
            cidr_ipv4=block,
            ip_protocol="tcp",
            from_port=port,
            to_port=port,
            opts=self.within(),
        )


def allowed(settings: Settings) -> tuple[str, ...]:
    """The networks that may connect to the load balancer."""
    return settings.endpoint.allowed or (settings.network,)


def listened(settings: Settings) -> tuple[int, ...]:
    """The ports of the load balancer: administration is never public."""
    if settings.endpoint.public:
        return tuple(port for port in ports.BROKER if port != ports.ADMIN)
    return ports.BROKER
