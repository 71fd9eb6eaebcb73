"""Security groups: one table lists which group may connect to which, and on which ports.

Each row creates two rules: egress from the caller, ingress to the called group. Everything else is
closed. Clients in the networks that the endpoint's settings allow reach the load balancer; unless
it is public, they reach brokers directly as well, else only clients in the VPC do. AWS services are
reached through their private endpoints (the group ``services``) or, with a NAT machine, at any
address on the port of HTTPS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.network import ports
from infra.network.vpc import VpcNetwork

GROUPS = {
    "balancer": "The load balancer that clients connect to",
    "brokers": "Brokers",
    "etcd": "etcd",
    "storage": "Storage nodes",
    "functions": "Functions that call brokers",
    "spark": "Spark jobs",
    "services": "Private endpoints of AWS services",
    "nat": "The NAT machine",
}

CONNECTIONS: Sequence[tuple[str, str, Sequence[int]]] = (
    ("balancer", "brokers", ports.BROKER),
    ("brokers", "brokers", (ports.BINARY, ports.GRPC, ports.HTTP)),
    ("brokers", "etcd", (ports.ETCD,)),
    ("brokers", "storage", (ports.STORAGE,)),
    ("etcd", "etcd", (ports.ETCD_PEERS,)),
    # A node that writes a ledger's object reads entries that it does not have from other nodes.
    ("storage", "storage", (ports.STORAGE,)),
    ("functions", "brokers", (ports.HTTP,)),
    ("spark", "brokers", (ports.BINARY,)),
    ("brokers", "services", (ports.HTTPS,)),
    ("etcd", "services", (ports.HTTPS,)),
    ("storage", "services", (ports.HTTPS,)),
    ("functions", "services", (ports.HTTPS,)),
    ("spark", "services", (ports.HTTPS,)),
)
S3_CLIENTS = ("brokers", "etcd", "storage", "spark")
"""The groups that may connect to S3; image layers come from there too."""


_ANYWHERE = "0.0.0.0/0"


class Firewall(Component):
    """The security groups by name."""

    def __init__(self, network: VpcNetwork, parent: Deployment) -> None:
        super().__init__("Firewall", parent)
        settings = self.settings
        nat = settings.egress == "nat"
        self.groups = {
            name: aws.ec2.SecurityGroup(
                name,
                name=self.named(name),
                description=what,
                vpc_id=network.vpc.id,
                # Without inline rules the provider removes AWS's default allow-all egress rule.
                # Rules are separate resources, so that two groups can refer to each other.
                opts=self.within(),
            )
            for name, what in GROUPS.items()
            if name != ("services" if nat else "nat")
        }
        for caller, called, called_ports in CONNECTIONS:
            for port in called_ports:
                if nat and called == "services":
                    self._egress(f"{caller}-to-nat", caller, port, cidr_ipv4=_ANYWHERE)
                else:
                    self._connection(caller, called, port)
        if nat:
            # A group cannot be named here: it does not cover packets on their way elsewhere.
            self._ingress("nat", "nat", ports.HTTPS, cidr_ipv4=settings.network)
            self._egress("nat", "nat", ports.HTTPS, cidr_ipv4=_ANYWHERE)
        self._clients("clients", "balancer", listener_ports(settings), _allowed(settings))
        self._clients("direct", "brokers", ports.DIRECT, _direct(settings))
        self.register_outputs({})

    def group_id(self, name: str) -> pulumi.Output[str]:
        """The id of a group."""
        found: pulumi.Output[str] = self.groups[name].id
        return found

    def allow_s3(self, prefixes: pulumi.Input[str]) -> None:
        """Allow ``S3_CLIENTS`` to connect to S3's addresses, an AWS prefix list."""
        for name in S3_CLIENTS:
            self._egress(f"{name}-to-s3", name, ports.HTTPS, prefix_list_id=prefixes)

    def _clients(
        self, what: str, group: str, open_ports: Sequence[int], blocks: Sequence[str]
    ) -> None:
        """Let clients in these networks connect to a group.

        A rule is named after its network, not its place in the list: otherwise a network that moves
        up when another one is removed would for a moment have two equal rules, which AWS refuses.
        """
        for port in open_ports:
            for number, block in enumerate(blocks, 1):
                before = pulumi.Alias(name=f"{what}-{number}-{port}")
                aws.vpc.SecurityGroupIngressRule(
                    f"{what}-{block}-{port}",
                    **self._rule(group, port, aliases=[before]),
                    cidr_ipv4=block,
                )

    def _connection(self, caller: str, called: str, port: int) -> None:
        name = f"{caller}-to-{called}-{port}"
        self._egress(name, caller, port, referenced_security_group_id=self.group_id(called))
        self._ingress(name, called, port, referenced_security_group_id=self.group_id(caller))

    def _egress(self, name: str, group: str, port: int, **peer: pulumi.Input[str]) -> None:
        aws.vpc.SecurityGroupEgressRule(name, **self._rule(group, port), **peer)

    def _ingress(self, name: str, group: str, port: int, **peer: pulumi.Input[str]) -> None:
        aws.vpc.SecurityGroupIngressRule(name, **self._rule(group, port), **peer)

    def _rule(self, group: str, port: int, **options: Any) -> dict[str, Any]:
        return {
            "security_group_id": self.group_id(group),
            "ip_protocol": "tcp",
            "from_port": port,
            "to_port": port,
            "opts": self.within(**options),
        }


def most_rules(settings: StackSettings) -> int:
    """The number of inbound rules of the group that has the most; outbound ones are fewer."""
    connections = sum(
        len(open_ports) for _, called, open_ports in CONNECTIONS if called == "brokers"
    )
    brokers = connections + len(ports.DIRECT) * len(_direct(settings))
    return max(brokers, len(listener_ports(settings)) * len(_allowed(settings)))


def _allowed(settings: StackSettings) -> Sequence[str]:
    """The networks whose clients reach the load balancer."""
    return settings.endpoint.allowed or (settings.network,)


def _direct(settings: StackSettings) -> Sequence[str]:
    """The networks whose clients reach brokers directly."""
    return (settings.network,) if settings.endpoint.public else _allowed(settings)


def listener_ports(settings: StackSettings) -> tuple[int, ...]:
    """The load balancer's ports; the administration port is never public."""
    if settings.endpoint.public:
        return tuple(port for port in ports.BROKER if port != ports.ADMIN)
    return ports.BROKER
