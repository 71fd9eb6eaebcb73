"""Alarms, the topic that they publish to, and the dashboard.

Every alarm calls for action; its description says what it means and where to look.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from infra.cluster.load_balancer import LoadBalancer
from infra.cluster.member import ClusterMember
from infra.cluster.shared import SharedResources
from infra.component import Component, Deployment
from infra.functions.functions import Functions
from infra.lake.spark import SparkApplication
from infra.network import ports
from infra.observability.dashboard import dashboard
from infra.security.iam import document
from infra.security.keys import Keys
from infra.telemetry.metrics import (
    CERTIFICATE,
    CLUSTER,
    DISK,
    LOAD,
    MEMBER,
    NAMESPACE,
    UNASSIGNED,
)

_HIGH_LOAD: Final = 0.85
_DISK_PERCENT: Final = 80
"""Leaves enough time to enlarge the volume."""
_CERTIFICATE_DAYS: Final = 90


class Observability(Component):
    """Alarms, their topic, and the dashboard."""

    def __init__(
        self,
        shared: SharedResources,
        members: list[ClusterMember],
        balancer: LoadBalancer,
        functions: Functions,
        spark: SparkApplication,
        parent: Deployment,
    ) -> None:
        super().__init__("Observability", parent)
        settings = self.settings
        self.topic = self._topic(shared.keys)
        self._cluster = {CLUSTER: settings.prefix}
        self._brokers(balancer)
        for member in members:
            self._member(member, shared.containers.cluster.name)
        if settings.internal_tls:
            self._certificates()
        self._functions(functions)
        self._jobs(spark)
        targets = balancer.targets[ports.BINARY].arn_suffix
        body = pulumi.Output.all(balancer.balancer.arn_suffix, targets).apply(
            lambda found: json.dumps(
                dashboard(
                    settings.prefix,
                    self.region.name,
                    found[0],
                    found[1],
                    [member.name for member in members],
                    list(functions.by_name),
                )
            )
        )
        self.dashboard = aws.cloudwatch.Dashboard(
            "dashboard",
            dashboard_name=settings.prefix,
            dashboard_body=body,
            opts=self.within(),
        )
        self.register_outputs({"topic": self.topic.arn})

    def _topic(self, keys: Keys) -> aws.sns.Topic:
        topic = aws.sns.Topic(
            "alarms",
            name=self.named("alarms"),
            kms_master_key_id=keys.operations.arn,
            opts=self.within(),
        )
        publish = {
            "Sid": "AlarmsAndRules",
            "Effect": "Allow",
            "Principal": {"Service": ["cloudwatch.amazonaws.com", "events.amazonaws.com"]},
            "Action": "sns:Publish",
            "Resource": topic.arn,
            "Condition": {"StringEquals": {"aws:SourceAccount": self.region.account}},
        }
        aws.sns.TopicPolicy("alarms", arn=topic.arn, policy=document([publish]), opts=self.within())
        if self.settings.alarm_email:
            aws.sns.TopicSubscription(
                "alarms",
                topic=topic.arn,
                protocol="email",
                endpoint=self.settings.alarm_email,
                opts=self.within(),
            )
        return topic

    def _brokers(self, balancer: LoadBalancer) -> None:
        self._alarm(
            "brokers-few",
            "Fewer healthy brokers than sulina:brokerMin: see the brokers' log",
            "AWS/NetworkELB",
            "HealthyHostCount",
            {
                "LoadBalancer": balancer.balancer.arn_suffix,
                "TargetGroup": balancer.targets[ports.BINARY].arn_suffix,
            },
            "Minimum",
            below=self.settings.brokers.minimum,
            missing="breaching",
        )
        self._alarm(
            "brokers-busy",
            "Brokers are overloaded although autoscaling is active: raise sulina:brokerMax",
            NAMESPACE,
            LOAD,
            self._cluster,
            "Average",
            above=_HIGH_LOAD,
            minutes=15,
        )
        self._alarm(
            "topics-unserved",
            "Topics have no broker: check that there is a leader and that it reaches etcd",
            NAMESPACE,
            UNASSIGNED,
            self._cluster,
            "Minimum",
            above=0,
            minutes=10,
        )
        self._alarm(
            "load-unknown",
            "The brokers' load is not published, so they are not scaled: see the scaler's log",
            NAMESPACE,
            LOAD,
            self._cluster,
            "SampleCount",
            below=1,
            minutes=10,
            missing="breaching",
        )

    def _member(self, member: ClusterMember, cluster: pulumi.Input[str]) -> None:
        self._alarm(
            f"{member.name}-machine",
            f"The machine of {member.name} fails its status checks: wait for EC2 to recover it, or "
            "replace it",
            "AWS/EC2",
            "StatusCheckFailed",
            {"InstanceId": member.machine.id},
            "Maximum",
            above=0,
            missing="breaching",
        )
        self._alarm(
            f"{member.name}-container",
            f"{member.name} is not running: see its log, and check that its volume is mounted",
            "ECS/ContainerInsights",
            "RunningTaskCount",
            {"ClusterName": cluster, "ServiceName": member.service.name},
            "Minimum",
            below=1,
            missing="breaching",
        )
        self._alarm(
            f"{member.name}-disk",
            f"The volume of {member.name} is more than {_DISK_PERCENT} % full, or is not measured: "
            "enlarge it, or find out why nothing is deleted (docs/operations.md)",
            NAMESPACE,
            DISK,
            {**self._cluster, MEMBER: member.name},
            "Maximum",
            above=_DISK_PERCENT,
            minutes=5,
            missing="breaching",
        )

    def _certificates(self) -> None:
        self._alarm(
            "certificates-old",
            "Internal certificates expire soon, and the cluster stops working when they do: renew "
            "them with `pulumi up` (docs/operations.md)",
            NAMESPACE,
            CERTIFICATE,
            self._cluster,
            "Minimum",
            below=_CERTIFICATE_DAYS,
            minutes=5,
        )

    def _functions(self, functions: Functions) -> None:
        for name, each in functions.by_name.items():
            self._alarm(
                f"{name}-errors",
                f"The function {name} fails: see its log",
                "AWS/Lambda",
                "Errors",
                {"FunctionName": each.name},
                "Sum",
                above=3,
                minutes=15,
            )
        self._alarm(
            "failed-calls",
            "Function calls failed for good: read them, with their reasons, from the queue",
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            {"QueueName": functions.failed_calls.name},
            "Maximum",
            above=0,
        )

    def _jobs(self, spark: SparkApplication) -> None:
        pattern = {
            "source": ["aws.emr-serverless"],
            "detail-type": ["EMR Serverless Job Run State Change"],
            "detail": {"state": ["FAILED"], "applicationId": [spark.application.id]},
        }
        rule = aws.cloudwatch.EventRule(
            "failed-jobs",
            name=self.named("failed-jobs"),
            description="Failed Spark jobs",
            event_pattern=pulumi.Output.json_dumps(pattern),
            opts=self.within(),
        )
        aws.cloudwatch.EventTarget(
            "failed-jobs", rule=rule.name, arn=self.topic.arn, opts=self.within()
        )

    def _alarm(
        self,
        name: str,
        description: str,
        namespace: str,
        metric: str,
        dimensions: dict[str, Any],
        statistic: str,
        *,
        above: float | None = None,
        below: float | None = None,
        minutes: int = 3,
        missing: str = "notBreaching",
    ) -> None:
        """Alarm when the metric is ``above`` or ``below`` a threshold for ``minutes``."""
        aws.cloudwatch.MetricAlarm(
            name,
            name=self.named(name),
            alarm_description=description,
            namespace=namespace,
            metric_name=metric,
            dimensions=dimensions,
            statistic=statistic,
            comparison_operator="LessThanThreshold" if above is None else "GreaterThanThreshold",
            threshold=below if above is None else above,
            period=60,
            evaluation_periods=minutes,
            treat_missing_data=missing,
            alarm_actions=[self.topic.arn],
            ok_actions=[self.topic.arn],
            opts=self.within(),
        )
