"""Private endpoints of AWS's services: the only way out of the network.

S3 has a gateway, which costs nothing; its policy names our buckets and the one from which ECR
serves the layers of images. The others are interfaces and cost by the hour and zone, so there are
no more than the parts that run in the network call.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.firewall import Firewall
from infra.network import Network
from infra.policies import document
from infra.tier import Place, Tier

READ_AND_WRITE = (
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:GetBucketLocation",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:AbortMultipartUpload",
)


def services(settings: Settings) -> list[str]:
    """The services that are called from within the network, by AWS's short names."""
    found = ["ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs", "secretsmanager"]
    if settings.shell:
        found.append("ssmmessages")
    if settings.has("functions"):
        found.append("glue")
    return found


class Endpoints(Tier):
    """The gateway to S3 and the interfaces of the other services."""

    def __init__(
        self,
        settings: Settings,
        place: Place,
        network: Network,
        firewall: Firewall,
        buckets: Sequence[pulumi.Input[str]],
        parent: pulumi.Resource,
    ) -> None:
        super().__init__("Endpoints", settings, place, parent)
        gateway = aws.ec2.VpcEndpoint(
            "s3",
            vpc_id=network.vpc.id,
            service_name=f"com.amazonaws.{place.region}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[network.routes.id],
            policy=self._policy(buckets),
            opts=self.within(),
        )
        firewall.reach_s3(gateway.prefix_list_id)
        for service in services(settings) if settings.has("cluster") else []:
            aws.ec2.VpcEndpoint(
                service,
                vpc_id=network.vpc.id,
                service_name=f"com.amazonaws.{place.region}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[subnet.id for subnet in network.work[: settings.endpoint_zones]],
                security_group_ids=[firewall.group("services")],
                opts=self.within(),
            )
        self.register_outputs({})

    def _policy(self, buckets: Sequence[pulumi.Input[str]]) -> pulumi.Output[str]:
        """The gateway passes requests of any caller, but to these buckets alone."""
        objects = [pulumi.Output.concat(bucket, "/*") for bucket in buckets]
        layers = self.place.bucket_arn(f"prod-{self.place.region}-starport-layer-bucket")
        return document(
            [
                {
                    "Sid": "OurBuckets",
                    "Effect": "Allow",
                    "Principal": "*",
                    "Action": list(READ_AND_WRITE),
                    "Resource": [*buckets, *objects],
                },
                {
                    "Sid": "LayersOfImages",
                    "Effect": "Allow",
                    "Principal": "*",
                    "Action": "s3:GetObject",
                    "Resource": f"{layers}/*",
                },
            ]
        )
