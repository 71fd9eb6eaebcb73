"""One Lambda function: its code, its role, its log, and where calls go that failed for good."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from infra.artefacts import function_archive
from infra.logs import log_group, log_name, may_log
from infra.policies import Statement, allow, anywhere, deny, trust_plainly
from infra.roles import role
from infra.tier import Tier

_RUNTIME = "python3.13"
_NETWORK_ACTIONS = (
    "ec2:CreateNetworkInterface",
    "ec2:DeleteNetworkInterface",
    "ec2:DescribeNetworkInterfaces",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a function needs."""

    name: str
    what: str
    seconds: int
    memory: int
    environment: Mapping[str, pulumi.Input[str]]
    may: Sequence[Statement]
    network: aws.lambda_.FunctionVpcConfigArgsDict | None = None
    """Subnets and groups, for a function that talks to brokers."""


class Function(pulumi.ComponentResource):
    """The function ``functions.<name>.handler.handler``."""

    def __init__(
        self,
        tier: Tier,
        plan: Plan,
        key: pulumi.Input[str],
        failed: aws.sqs.Queue,
    ) -> None:
        super().__init__("sulina:infra:Function", plan.name, None, tier.within())
        self.name = tier.named(plan.name)
        self.arn = tier.place.arn("lambda", f"function:{self.name}")
        log = log_group(tier, plan.name, key)
        inside = self._inside() if plan.network else []
        self.role = role(
            tier,
            plan.name,
            # Lambda does not say for which function it takes a role.
            trust_plainly("lambda.amazonaws.com"),
            [
                may_log(tier, plan.name),
                allow("Failed", ["sqs:SendMessage"], [failed.arn]),
                *plan.may,
                *inside,
            ],
        )
        within = pulumi.ResourceOptions(parent=self)
        self.function = aws.lambda_.Function(
            plan.name,
            name=self.name,
            description=plan.what,
            runtime=_RUNTIME,
            architectures=[tier.settings.architecture],
            handler=f"functions.{plan.name}.handler.handler",
            code=function_archive(tier.settings.functions_folder, plan.name),
            role=self.role.arn,
            timeout=plan.seconds,
            memory_size=plan.memory,
            environment={"variables": {"SULINA_CLUSTER": tier.settings.prefix, **plan.environment}},
            vpc_config=plan.network,
            logging_config={"log_format": "JSON", "log_group": log_name(tier, plan.name)},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[log]),
        )
        aws.lambda_.FunctionEventInvokeConfig(
            plan.name,
            function_name=self.function.name,
            maximum_retry_attempts=2,
            maximum_event_age_in_seconds=3_600,
            destination_config={"on_failure": {"destination": failed.arn}},
            opts=within,
        )
        self.register_outputs({"arn": self.function.arn})

    def _inside(self) -> list[Statement]:
        """Lambda itself plugs the function into the network; the function's code must not."""
        return [
            anywhere("Network", list(_NETWORK_ACTIONS)),
            deny(
                "NotByItsCode",
                list(_NETWORK_ACTIONS),
                ["*"],
                {"ArnEquals": {"lambda:SourceFunctionArn": self.arn}},
            ),
        ]
