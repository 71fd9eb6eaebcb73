"""Internal DNS: one fixed name per member, one shared name for all brokers."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.network.vpc import VpcNetwork


class PrivateDns(Component):
    """The private zone ``<stack>.sulina.internal``, which resolves only inside the VPC."""

    def __init__(self, network: VpcNetwork, parent: Deployment) -> None:
        super().__init__("PrivateDns", parent)
        self.domain = f"{self.settings.stack}.sulina.internal"
        self.namespace = aws.servicediscovery.PrivateDnsNamespace(
            "names",
            name=self.domain,
            description="Internal names of Sulina's servers",
            vpc=network.vpc.id,
            opts=self.within(),
        )
        self.register_outputs({"domain": self.domain})

    def service(self, parent: pulumi.Resource, name: str, ttl: int) -> aws.servicediscovery.Service:
        """A name that resolves to every address registered under it."""
        return aws.servicediscovery.Service(
            name,
            name=name,
            dns_config={
                "namespace_id": self.namespace.id,
                "dns_records": [{"type": "A", "ttl": ttl}],
                "routing_policy": "MULTIVALUE",
            },
            # ECS registers brokers here, and one that is left over would prevent the deletion.
            force_destroy=True,
            opts=pulumi.ResourceOptions(parent=parent),
        )

    def fixed_name(
        self, parent: pulumi.Resource, name: str, address: str
    ) -> aws.servicediscovery.Instance:
        """A name that resolves to one address.

        It is a Cloud Map instance because only Cloud Map can write records to its zone.
        """
        service = self.service(parent, name, 60)
        return aws.servicediscovery.Instance(
            name,
            service_id=service.id,
            instance_id=name,
            attributes={"AWS_INSTANCE_IPV4": address},
            opts=pulumi.ResourceOptions(parent=parent),
        )
