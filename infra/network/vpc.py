"""The VPC: subnets in three zones, or all of them in one, and their routes.

Unless the stack chooses a NAT machine (nat.py), the only way out is the private endpoints of AWS
services, and nothing that stores or transfers messages has a route to the internet. The ``edge``
subnets, which have an internet gateway, exist for a public load balancer or a NAT machine alone.
"""

from __future__ import annotations

import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.errors import DeploymentError
from infra.network.addresses import subnets


class VpcNetwork(Component):
    """VPC, subnets and routes."""

    def __init__(self, parent: Deployment) -> None:
        super().__init__("Network", parent)
        settings = self.settings
        self.vpc = aws.ec2.Vpc(
            "vpc",
            cidr_block=settings.network,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags={"Name": settings.prefix},
            opts=self.within(),
        )
        # The VPC's default group lets its members connect to each other: remove its rules.
        aws.ec2.DefaultSecurityGroup("closed", vpc_id=self.vpc.id, opts=self.within())
        self.routes = aws.ec2.RouteTable("private", vpc_id=self.vpc.id, opts=self.within())
        blocks = subnets(settings.network)
        self.work = [self._subnet("work", zone, block.work) for zone, block in enumerate(blocks)]
        self.data = [self._subnet("data", zone, block.data) for zone, block in enumerate(blocks)]
        self.edge: list[aws.ec2.Subnet] = []
        if settings.endpoint.public or (settings.egress == "nat" and settings.has("cluster")):
            routes = self._internet_routes()
            self.edge = [
                self._subnet("edge", zone, block.edge, routes) for zone, block in enumerate(blocks)
            ]
        self.register_outputs({"vpc": self.vpc.id})

    def _subnet(
        self, purpose: str, zone: int, block: str, routes: aws.ec2.RouteTable | None = None
    ) -> aws.ec2.Subnet:
        name = f"{purpose}-{zone + 1}"
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self.vpc.id,
            cidr_block=block,
            availability_zone=self.region.zones[zone],
            map_public_ip_on_launch=False,
            tags={"Name": self.named(name)},
            # A region's list of available zones changes; a subnet stays where it is.
            opts=self.within(ignore_changes=["availabilityZone"]),
        )
        aws.ec2.RouteTableAssociation(
            name,
            subnet_id=subnet.id,
            route_table_id=(routes or self.routes).id,
            opts=self.within(),
        )
        return subnet

    def _internet_routes(self) -> aws.ec2.RouteTable:
        gateway = aws.ec2.InternetGateway("internet", vpc_id=self.vpc.id, opts=self.within())
        routes = aws.ec2.RouteTable("edge", vpc_id=self.vpc.id, opts=self.within())
        self.internet = aws.ec2.Route(
            "internet",
            route_table_id=routes.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=self.within(),
        )
        return routes


def check_network(settings: StackSettings) -> None:
    """Raises ``DeploymentError`` if the stack exists with another network.

    Another network would be another VPC, to which members cannot move one at a time.
    """
    tags = {"Project": "sulina", "Stack": settings.stack, "Name": settings.prefix}
    same = [aws.ec2.GetVpcsFilterArgs(name="cidr-block", values=[settings.network])]
    if aws.ec2.get_vpcs(tags=tags).ids and not aws.ec2.get_vpcs(tags=tags, filters=same).ids:
        raise DeploymentError(
            f"sulina:network {settings.network} differs from the network of the VPC "
            f"{settings.prefix}, which cannot be changed: set it back, or delete the stack first "
            "with `pulumi destroy`"
        )
