"""What people are told: alarms, one topic that they go to, and a dashboard.

An alarm is something to act on. Each says in its description what it means and what to look at.
"""

from __future__ import annotations

import json
from typing import Any, Final

import pulumi
import pulumi_aws as aws

from infra import ports
from infra.analytics import Analytics
from infra.balancer import Balancer
from infra.containers import Containers
from infra.dashboard import dashboard
from infra.figures import CERTIFICATE, DIMENSION, DISK, LOAD, MEMBER, NAMESPACE, UNASSIGNED
from infra.functions import Functions
from infra.ground import Ground
from infra.keys import Keys
from infra.member import Member
from infra.policies import document
from infra.tier import Tier

_BUSY: Final = 0.85
_FULL: Final = 80
"""Percent of a volume: from there on there is time to make it larger."""
_OLD: Final = 90
"""Days that a certificate is still good."""


class Observability(Tier):
    """Alarms, their topic, the dashboard."""

    def __init__(
        self,
        ground: Ground,
        members: list[Member],
        balancer: Balancer,
        functions: Functions,
        analytics: Analytics,
        parent: pulumi.Resource,
    ) -> None:
        settings, place, containers = ground.settings, ground.place, ground.containers
        super().__init__("Observability", settings, place, parent)
        self.topic = self._topic(ground.keys)
        self._brokers(balancer)
        for member in members:
            self._member(member, containers)
        if settings.inside_tls:
            self._certificates()
        self._functions(functions)
        self._jobs(analytics)
        targets = balancer.targets[ports.BINARY].arn_suffix
        body = pulumi.Output.all(balancer.balancer.arn_suffix, targets).apply(
            lambda found: json.dumps(
                dashboard(
                    settings.prefix,
                    place.region,
                    found[0],
                    found[1],
                    [member.name for member in members],
                    list(functions.all),
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
            "Condition": {"StringEquals": {"aws:SourceAccount": self.place.account}},
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

    def _brokers(self, balancer: Balancer) -> None:
        settings = self.settings
        self._alarm(
            "brokers-few",
            "Fewer brokers answer than there should be: see the log of the brokers",
            "AWS/NetworkELB",
            "HealthyHostCount",
            {
                "LoadBalancer": balancer.balancer.arn_suffix,
                "TargetGroup": balancer.targets[ports.BINARY].arn_suffix,
            },
            "Minimum",
            "LessThanThreshold",
            settings.brokers.least,
            missing="breaching",
        )
        self._alarm(
            "brokers-busy",
            "Brokers are full and autoscaling does not help: raise sulina:brokerMost",
            NAMESPACE,
            LOAD,
            {DIMENSION: settings.prefix},
            "Average",
            "GreaterThanThreshold",
            _BUSY,
            minutes=15,
        )
        self._alarm(
            "topics-unserved",
            "Topics wait for a broker: is there a leader, and does it reach etcd?",
            NAMESPACE,
            UNASSIGNED,
            {DIMENSION: settings.prefix},
            "Minimum",
            "GreaterThanThreshold",
            0,
            minutes=10,
        )
        self._alarm(
            "load-unknown",
            "Nobody tells the load of the brokers, so they are not scaled: see the log of scaler",
            NAMESPACE,
            LOAD,
            {DIMENSION: settings.prefix},
            "SampleCount",
            "LessThanThreshold",
            1,
            minutes=10,
            missing="breaching",
        )

    def _member(self, member: Member, containers: Containers) -> None:
        self._alarm(
            f"{member.name}-machine",
            f"The machine of {member.name} fails its checks: EC2 recovers it, or replace it",
            "AWS/EC2",
            "StatusCheckFailed",
            {"InstanceId": member.machine.id},
            "Maximum",
            "GreaterThanThreshold",
            0,
            missing="breaching",
        )
        self._alarm(
            f"{member.name}-container",
            f"{member.name} does not run: see its log, and whether its volume is mounted",
            "ECS/ContainerInsights",
            "RunningTaskCount",
            {"ClusterName": containers.cluster.name, "ServiceName": member.service.name},
            "Minimum",
            "LessThanThreshold",
            1,
            missing="breaching",
        )

        self._alarm(
            f"{member.name}-disk",
            f"The volume of {member.name} is more than {_FULL} % full, or nobody measures it: make "
            "it larger, or see why nothing is deleted (docs/operations.md)",
            NAMESPACE,
            DISK,
            {DIMENSION: self.settings.prefix, MEMBER: member.name},
            "Maximum",
            "GreaterThanThreshold",
            _FULL,
            minutes=5,
            missing="breaching",
        )

    def _certificates(self) -> None:
        self._alarm(
            "certificates-old",
            "Certificates inside the cluster end soon, and nothing works without: `pulumi up` "
            "makes new ones (docs/operations.md)",
            NAMESPACE,
            CERTIFICATE,
            {DIMENSION: self.settings.prefix},
            "Minimum",
            "LessThanThreshold",
            _OLD,
            minutes=5,
        )

    def _functions(self, functions: Functions) -> None:
        for name, each in functions.all.items():
            self._alarm(
                f"{name}-errors",
                f"The function {name} fails: see its log",
                "AWS/Lambda",
                "Errors",
                {"FunctionName": each.name},
                "Sum",
                "GreaterThanThreshold",
                3,
                minutes=15,
            )
        self._alarm(
            "failed-calls",
            "Calls of functions failed for good: they lie in the queue, with their reasons",
            "AWS/SQS",
            "ApproximateNumberOfMessagesVisible",
            {"QueueName": functions.failed.name},
            "Maximum",
            "GreaterThanThreshold",
            0,
        )

    def _jobs(self, analytics: Analytics) -> None:
        pattern = {
            "source": ["aws.emr-serverless"],
            "detail-type": ["EMR Serverless Job Run State Change"],
            "detail": {"state": ["FAILED"], "applicationId": [analytics.application.id]},
        }
        rule = aws.cloudwatch.EventRule(
            "failed-jobs",
            name=self.named("failed-jobs"),
            description="Spark jobs that failed",
            event_pattern=pulumi.Output.json_dumps(pattern),
            opts=self.within(),
        )
        aws.cloudwatch.EventTarget(
            "failed-jobs", rule=rule.name, arn=self.topic.arn, opts=self.within()
        )

    def _alarm(
        self,
        name: str,
        what: str,
        namespace: str,
        metric: str,
        dimensions: dict[str, Any],
        statistic: str,
        comparison: str,
        threshold: float,
        minutes: int = 3,
        missing: str = "notBreaching",
    ) -> None:
        aws.cloudwatch.MetricAlarm(
            name,
            name=self.named(name),
            alarm_description=what,
            namespace=namespace,
            metric_name=metric,
            dimensions=dimensions,
            statistic=statistic,
            comparison_operator=comparison,
            threshold=threshold,
            period=60,
            evaluation_periods=minutes,
            treat_missing_data=missing,
            alarm_actions=[self.topic.arn],
            ok_actions=[self.topic.arn],
            opts=self.within(),
        )
