"""A Lambda function: its code, role, log, and the queue for calls that failed for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from infra.artifacts import DIRECT_BYTES, digest_of_file, function_archive
from infra.component import Component
from infra.lake.bucket import Bucket
from infra.security.iam import (
    Statement,
    allow,
    allow_any_resource,
    deny,
    role,
    trust_unconditionally,
)
from infra.telemetry.logs import log_group, log_name, may_log

_RUNTIME = "python3.13"
_NETWORK_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
)


@dataclass(frozen=True, slots=True)
class FunctionSpec:
    """What a function needs to be deployed."""

    name: str
    description: str
    seconds: int
    memory: int
    environment: Mapping[str, pulumi.Input[str]]
    permissions: Sequence[Statement]
    network: aws.lambda_.FunctionVpcConfigArgsDict | None = None
    """Subnets and security groups, for a function that calls brokers."""


class LambdaFunction(pulumi.ComponentResource):
    """The function ``functions.<name>.handler.handler``."""

    def __init__(
        self,
        component: Component,
        spec: FunctionSpec,
        work: Bucket,
        key: pulumi.Input[str],
        failed_calls: aws.sqs.Queue,
        after: pulumi.Resource,
    ) -> None:
        """The function is created and updated after ``after``; large archives go to ``work``."""
        super().__init__("sulina:infra:Function", spec.name, None, component.within())
        self.name = component.named(spec.name)
        self.arn = component.region.arn("lambda", f"function:{self.name}")
        log = log_group(component, spec.name, key)
        self.role = role(
            component,
            spec.name,
            # Lambda does not state the function for which it assumes a role.
            trust_unconditionally("lambda.amazonaws.com"),
            [
                may_log(component, spec.name),
                allow("FailedCalls", ["sqs:SendMessage"], [failed_calls.arn]),
                *spec.permissions,
                *(self._network_permissions() if spec.network else []),
            ],
        )
        self.function = aws.lambda_.Function(
            spec.name,
            name=self.name,
            description=spec.description,
            runtime=_RUNTIME,
            architectures=[component.settings.architecture],
            handler=f"functions.{spec.name}.handler.handler",
            **self._code(component.settings.functions_folder, spec.name, work),
            role=self.role.arn,
            timeout=spec.seconds,
            memory_size=spec.memory,
            environment={
                "variables": {"SULINA_CLUSTER": component.settings.prefix, **spec.environment}
            },
            vpc_config=spec.network,
            logging_config={"log_format": "JSON", "log_group": log_name(component, spec.name)},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[log, after]),
        )
        aws.lambda_.FunctionEventInvokeConfig(
            spec.name,
            function_name=self.function.name,
            maximum_retry_attempts=2,
            maximum_event_age_in_seconds=3_600,
            destination_config={"on_failure": {"destination": failed_calls.arn}},
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.register_outputs({"arn": self.function.arn})

    def _code(self, folder: str, name: str, work: Bucket) -> dict[str, Any]:
        """Lambda takes archives of up to 50 MB in a request, and larger ones from a bucket."""
        path = function_archive(folder, name)
        if path.stat().st_size <= DIRECT_BYTES:
            return {"code": pulumi.FileArchive(str(path))}
        stored = aws.s3.BucketObjectv2(
            name,
            bucket=work.bucket.id,
            key=f"functions/{name}-{digest_of_file(path)}.zip",
            source=pulumi.FileAsset(str(path)),
            opts=pulumi.ResourceOptions(parent=self),
        )
        return {"s3_bucket": stored.bucket, "s3_key": stored.key}

    def _network_permissions(self) -> list[Statement]:
        """Let Lambda create the function's network interface, but not the function's own code."""
        return [
            allow_any_resource("Network", list(_NETWORK_ACTIONS)),
            deny(
                "NotFromCode",
                list(_NETWORK_ACTIONS),
                ["*"],
                {"ArnEquals": {"lambda:SourceFunctionArn": self.arn}},
            ),
        ]
