"""Private endpoints of AWS services: the only way out of the VPC, unless there is a NAT machine.

S3 has a free gateway endpoint; its policy allows our buckets, the bucket from which ECR serves
image layers, and the one in which EMR keeps logs. The other services have interface endpoints,
which cost per hour and zone, so only those that are called from inside the VPC exist.
"""

from __future__ import annotations

from collections.abc import Sequence

import pulumi
import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.config.settings import StackSettings
from infra.network.firewall import Firewall
from infra.network.vpc import VpcNetwork
from infra.security.iam import allow_principal, document

READ_AND_WRITE = (
    "s3:GetObject",
    "s3:PutObject",
    "s3:DeleteObject",
    "s3:ListBucket",
    "s3:GetBucketLocation",
    "s3:GetBucketVersioning",
    "s3:GetLifecycleConfiguration",
    "s3:GetReplicationConfiguration",
    "s3:ListBucketMultipartUploads",
    "s3:ListMultipartUploadParts",
    "s3:AbortMultipartUpload",
)


def services(settings: StackSettings) -> list[str]:
    """The short AWS names of the services that have interface endpoints."""
    if settings.egress == "nat" or not settings.has("cluster"):
        return []
    found = ["ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs", "secretsmanager"]
    if settings.shell:
        found.append("ssmmessages")
    if settings.has("functions"):
        found.append("glue")
    if settings.prometheus and settings.has("observability"):
        found.append("aps-workspaces")  # for the collector that writes metrics
    return found


class VpcEndpoints(Component):
    """The S3 gateway and the interface endpoints."""

    def __init__(
        self,
        network: VpcNetwork,
        firewall: Firewall,
        buckets: Sequence[pulumi.Input[str]],
        parent: Deployment,
    ) -> None:
        super().__init__("VpcEndpoints", parent)
        settings, region = self.settings, self.region
        zones = min(settings.zones, settings.endpoint_zones)
        gateway = aws.ec2.VpcEndpoint(
            "s3",
            vpc_id=network.vpc.id,
            service_name=f"com.amazonaws.{region.name}.s3",
            vpc_endpoint_type="Gateway",
            route_table_ids=[network.routes.id],
            policy=self._policy(buckets),
            opts=self.within(),
        )
        firewall.allow_s3(gateway.prefix_list_id)
        for service in services(settings):
            aws.ec2.VpcEndpoint(
                service,
                vpc_id=network.vpc.id,
                service_name=f"com.amazonaws.{region.name}.{service}",
                vpc_endpoint_type="Interface",
                private_dns_enabled=True,
                subnet_ids=[subnet.id for subnet in network.work[:zones]],
                security_group_ids=[firewall.group_id("services")],
                opts=self.within(),
            )
        self.register_outputs({})

    def _policy(self, buckets: Sequence[pulumi.Input[str]]) -> pulumi.Output[str]:
        """Allow any caller, but only these buckets."""
        objects = [pulumi.Output.concat(bucket, "/*") for bucket in buckets]
        layers = self.region.bucket_arn(f"prod-{self.region.name}-starport-layer-bucket")
        ours = [*buckets, *objects]
        statements = [
            allow_principal("OurBuckets", "*", list(READ_AND_WRITE), ours),
            allow_principal("ImageLayers", "*", "s3:GetObject", f"{layers}/*"),
        ]
        if self.settings.has("functions"):
            # EMR keeps the logs and histories of jobs that its console shows.
            logs = self.region.bucket_arn(f"prod.{self.region.name}.appinfo.src")
            write = ["s3:PutObject", "s3:PutObjectAcl"]
            statements.append(allow_principal("JobLogs", "*", write, [logs, f"{logs}/*"]))
        return document(statements)
