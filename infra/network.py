"""The network: a VPC over three zones that nothing leaves but by AWS's own private endpoints.

There is no NAT and no route to the internet for anything that holds or moves messages. Only when
the endpoint for clients is public do three more subnets exist, with an internet gateway, and
nothing but the load balancer in them.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.addresses import subnets
from infra.config import Settings
from infra.tier import Place, Tier


class Network(Tier):
    """VPC, subnets and routes."""

    def __init__(self, settings: Settings, place: Place, parent: pulumi.Resource) -> None:
        super().__init__("Network", settings, place, parent)
        self.vpc = aws.ec2.Vpc(
            "vpc",
            cidr_block=settings.network,
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags={"Name": settings.prefix},
            opts=self.within(),
        )
        # The group that AWS makes by itself lets its members talk to each other: empty it.
        aws.ec2.DefaultSecurityGroup("closed", vpc_id=self.vpc.id, opts=self.within())
        self.routes = aws.ec2.RouteTable("private", vpc_id=self.vpc.id, opts=self.within())
        blocks = subnets(settings.network)
        self.work = [self._subnet("work", zone, block.work) for zone, block in enumerate(blocks)]
        self.data = [self._subnet("data", zone, block.data) for zone, block in enumerate(blocks)]
        self.edge: list[aws.ec2.Subnet] = []
        if settings.endpoint.public:
            routes = self._way_out()
            self.edge = [
                self._subnet("edge", zone, block.edge, routes) for zone, block in enumerate(blocks)
            ]
        self.register_outputs({"vpc": self.vpc.id})

    def _subnet(
        self, kind: str, zone: int, block: str, routes: aws.ec2.RouteTable | None = None
    ) -> aws.ec2.Subnet:
        name = f"{kind}-{zone + 1}"
        subnet = aws.ec2.Subnet(
            name,
            vpc_id=self.vpc.id,
            cidr_block=block,
            availability_zone=self.place.zones[zone],
            map_public_ip_on_launch=False,
            tags={"Name": self.named(name)},
            opts=self.within(),
        )
        aws.ec2.RouteTableAssociation(
            name,
            subnet_id=subnet.id,
            route_table_id=(routes or self.routes).id,
            opts=self.within(),
        )
        return subnet

    def _way_out(self) -> aws.ec2.RouteTable:
        gateway = aws.ec2.InternetGateway("internet", vpc_id=self.vpc.id, opts=self.within())
        routes = aws.ec2.RouteTable("edge", vpc_id=self.vpc.id, opts=self.within())
        aws.ec2.Route(
            "internet",
            route_table_id=routes.id,
            destination_cidr_block="0.0.0.0/0",
            gateway_id=gateway.id,
            opts=self.within(),
        )
        return routes
