"""One small NAT machine, the cheap way to AWS services for a development stack.

It forwards connections from the VPC to the port of HTTPS anywhere, so it replaces all interface
endpoints for a seventh of their price (docs/cost.md), and it carries little: images and objects
come through the free S3 gateway. While it is down, running containers work on, but none can start,
and logs are lost. EC2 recovers it on another host. Production uses private endpoints instead.
"""

from __future__ import annotations

from typing import Final

import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.machine_image import machine_image
from infra.network.firewall import Firewall
from infra.network.vpc import VpcNetwork
from infra.security.keys import Keys

INSTANCES: Final = {"arm64": "t4g.nano", "x86_64": "t3.nano"}

_SCRIPT: Final = """#!/bin/bash
set -euo pipefail

# The image is that of the members, because it has iptables; no container runs here.
systemctl mask --now ecs.service docker.service docker.socket

cat > /etc/systemd/system/nat.service <<'END'
[Unit]
Description=Forwards connections from the VPC to AWS services
After=network-online.target
Wants=network-online.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/usr/sbin/sysctl --write net.ipv4.ip_forward=1
ExecStart=/usr/sbin/iptables --policy FORWARD ACCEPT
ExecStart=/usr/sbin/iptables --table nat --append POSTROUTING --source {network} --jump MASQUERADE

[Install]
WantedBy=multi-user.target
END
systemctl daemon-reload
systemctl enable --now nat.service
"""


class Nat(Component):
    """The NAT machine, and the route of the private subnets to it."""

    def __init__(
        self, keys: Keys, network: VpcNetwork, firewall: Firewall, parent: Deployment
    ) -> None:
        super().__init__("Nat", parent)
        settings = self.settings
        machine = aws.ec2.Instance(
            "nat",
            ami=machine_image(self),
            instance_type=INSTANCES[settings.architecture],
            subnet_id=network.edge[0].id,
            associate_public_ip_address=True,
            # It receives packets that are addressed to others.
            source_dest_check=False,
            vpc_security_group_ids=[firewall.group_id("nat")],
            user_data=_SCRIPT.format(network=settings.network),
            metadata_options={"http_tokens": "required", "http_put_response_hop_limit": 1},
            maintenance_options={"auto_recovery": "default"},
            root_block_device=self.root_disk("nat", keys.data.arn),
            tags={"Name": self.named("nat")},
            # A newer image must not interrupt the way out. The gateway cannot be deleted while a
            # machine behind it has a public address.
            opts=self.within(ignore_changes=["ami"], depends_on=[network.internet]),
        )
        aws.ec2.Route(
            "nat",
            route_table_id=network.routes.id,
            destination_cidr_block="0.0.0.0/0",
            network_interface_id=machine.primary_network_interface_id,
            opts=self.within(),
        )
        self.register_outputs({})
