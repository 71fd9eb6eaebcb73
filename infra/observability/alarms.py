"""Alarms, the topic that they publish to, and the dashboard.

Every alarm calls for action; its description says what it means and where to look.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
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
from infra.security.iam import allow_principal, document
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


@dataclass(frozen=True, slots=True)
class _Metric:
    """What an alarm watches."""

    namespace: str
    name: str
    dimensions: Mapping[str, Any]
    statistic: str


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
        services = {"Alarms": "cloudwatch.amazonaws.com"}
        if self.settings.prometheus:
            services["Alerts"] = "aps.amazonaws.com"
        ours = {"StringEquals": {"aws:SourceAccount": self.region.account}}
        publish = [
            *(
                allow_principal(sid, {"Service": service}, "sns:Publish", topic.arn, ours)
                for sid, service in services.items()
            ),
            # EventBridge does not say on whose behalf it publishes: with a condition it could not.
            allow_principal("Rules", {"Service": "events.amazonaws.com"}, "sns:Publish", topic.arn),
        ]
        aws.sns.TopicPolicy("alarms", arn=topic.arn, policy=document(publish), opts=self.within())
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
        targets = {
            "LoadBalancer": balancer.balancer.arn_suffix,
            "TargetGroup": balancer.targets[ports.BINARY].arn_suffix,
        }
        self._alarm(
            "brokers-few",
            "Fewer healthy brokers than sulina:brokerMin: see the brokers' log",
            _Metric("AWS/NetworkELB", "HealthyHostCount", targets, "Minimum"),
            below=self.settings.brokers.minimum,
            missing="breaching",
        )
        self._alarm(
            "brokers-busy",
            "Brokers are overloaded although autoscaling is active: raise sulina:brokerMax",
            self._own(LOAD, "Average"),
            above=_HIGH_LOAD,
            minutes=15,
        )
        self._alarm(
            "topics-unserved",
            "Topics have no broker: check that there is a leader and that it reaches etcd",
            self._own(UNASSIGNED, "Minimum"),
            above=0,
            minutes=10,
        )
        self._alarm(
            "load-unknown",
            "The brokers' load is not published, so they are not scaled: see the scaler's log",
            self._own(LOAD, "SampleCount"),
            below=1,
            minutes=10,
            missing="breaching",
        )

    def _member(self, member: ClusterMember, cluster: pulumi.Input[str]) -> None:
        self._alarm(
            f"{member.name}-machine",
            f"The machine of {member.name} fails its status checks: wait for EC2 to recover it, or "
            "replace it",
            _Metric("AWS/EC2", "StatusCheckFailed", {"InstanceId": member.machine.id}, "Maximum"),
            above=0,
            missing="breaching",
        )
        service = {"ClusterName": cluster, "ServiceName": member.service.name}
        self._alarm(
            f"{member.name}-container",
            f"{member.name} is not running: see its log, and check that its volume is mounted",
            # Each running container publishes one sample per minute, for free.
            _Metric("AWS/ECS", "CPUUtilization", service, "SampleCount"),
            below=1,
            missing="breaching",
        )
        self._alarm(
            f"{member.name}-disk",
            f"The volume of {member.name} is more than {_DISK_PERCENT} % full, or is not measured: "
            "enlarge it, or find out why nothing is deleted (docs/operations.md)",
            self._own(DISK, "Maximum", {MEMBER: member.name}),
            above=_DISK_PERCENT,
            minutes=5,
            missing="breaching",
        )

    def _certificates(self) -> None:
        self._alarm(
            "certificates-old",
            "Internal certificates expire soon, and the cluster stops working when they do: renew "
            "them with `pulumi up` (docs/operations.md)",
            self._own(CERTIFICATE, "Minimum"),
            below=_CERTIFICATE_DAYS,
            minutes=5,
        )

    def _functions(self, functions: Functions) -> None:
        for name, each in functions.by_name.items():
            self._alarm(
                f"{name}-errors",
                f"The function {name} fails: see its log",
                _Metric("AWS/Lambda", "Errors", {"FunctionName": each.name}, "Sum"),
                above=3,
                minutes=15,
            )
        queue = {"QueueName": functions.failed_calls.name}
        self._alarm(
            "failed-calls",
            "Function calls failed for good: read them, with their reasons, from the queue",
            _Metric("AWS/SQS", "ApproximateNumberOfMessagesVisible", queue, "Maximum"),
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

    def _own(self, name: str, statistic: str, more: Mapping[str, str] | None = None) -> _Metric:
        """One of Sulina's own metrics, of this deployment."""
        return _Metric(NAMESPACE, name, {CLUSTER: self.settings.prefix, **(more or {})}, statistic)

    def _alarm(
        self,
        name: str,
        description: str,
        metric: _Metric,
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
            namespace=metric.namespace,
            metric_name=metric.name,
            dimensions=metric.dimensions,
            statistic=metric.statistic,
            comparison_operator="LessThanThreshold" if above is None else "GreaterThanThreshold",
            threshold=below if above is None else above,
            period=60,
            evaluation_periods=minutes,
            treat_missing_data=missing,
            alarm_actions=[self.topic.arn],
            ok_actions=[self.topic.arn],
            opts=self.within(),
        )
