"""Names within the network: members have fixed ones, brokers share one."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.network import Network
from infra.tier import Place, Tier


class Names(Tier):
    """The private zone ``<stack>.sulina.internal``, which nobody outside the network can ask."""

    def __init__(
        self, settings: Settings, place: Place, network: Network, parent: pulumi.Resource
    ) -> None:
        super().__init__("Names", settings, place, parent)
        self.domain = f"{settings.stack}.sulina.internal"
        self.namespace = aws.servicediscovery.PrivateDnsNamespace(
            "names",
            name=self.domain,
            description="Where Sulina's parts find each other",
            vpc=network.vpc.id,
            opts=self.within(),
        )
        self.register_outputs({"domain": self.domain})

    def service(self, parent: pulumi.Resource, name: str, ttl: int) -> aws.servicediscovery.Service:
        """A name that stands for whatever registers under it."""
        return aws.servicediscovery.Service(
            name,
            name=name,
            dns_config={
                "namespace_id": self.namespace.id,
                "dns_records": [{"type": "A", "ttl": ttl}],
                "routing_policy": "MULTIVALUE",
            },
            opts=pulumi.ResourceOptions(parent=parent),
        )

    def fixed(self, parent: pulumi.Resource, name: str, address: str) -> None:
        """A name that always stands for one address.

        The zone is Cloud Map's, in which nobody else may write records.
        """
        service = self.service(parent, name, 60)
        aws.servicediscovery.Instance(
            name,
            service_id=service.id,
            instance_id=name,
            attributes={"AWS_INSTANCE_IPV4": address},
            opts=pulumi.ResourceOptions(parent=parent),
        )
