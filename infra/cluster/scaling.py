"""Autoscaling of brokers by their load reports, the same that the load manager uses.

The function ``scaler`` reads the brokers' load reports and publishes their average load to
CloudWatch; target tracking keeps it near the configured value. ECS's CPU metric would not show a
broker that runs out of network bandwidth first.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.cluster.brokers import BrokerService
from infra.cluster.shared import SharedResources
from infra.component import Component, Deployment
from infra.telemetry.metrics import CLUSTER, LOAD, NAMESPACE


class Scaling(Component):
    """Controls the number of brokers."""

    def __init__(self, shared: SharedResources, brokers: BrokerService, parent: Deployment) -> None:
        super().__init__("Scaling", parent)
        settings, cluster = self.settings, shared.containers.cluster
        service = pulumi.Output.concat("service/", cluster.name, "/", brokers.service.name)
        target = aws.appautoscaling.Target(
            "brokers",
            service_namespace="ecs",
            scalable_dimension="ecs:service:DesiredCount",
            resource_id=service,
            # Without an image there is nothing to run.
            min_capacity=settings.brokers.minimum if settings.runs else 0,
            max_capacity=settings.brokers.maximum,
            opts=self.within(),
        )
        aws.appautoscaling.Policy(
            "load",
            name=self.named("load"),
            policy_type="TargetTrackingScaling",
            service_namespace=target.service_namespace,
            scalable_dimension=target.scalable_dimension,
            resource_id=target.resource_id,
            target_tracking_scaling_policy_configuration={
                "target_value": settings.brokers.load,
                "customized_metric_specification": {
                    "namespace": NAMESPACE,
                    "metric_name": LOAD,
                    "statistic": "Average",
                    "dimensions": [{"name": CLUSTER, "value": settings.prefix}],
                },
                "scale_out_cooldown": 120,
                # Stopping a broker moves its topics, and the load needs time to settle again.
                "scale_in_cooldown": 900,
            },
            opts=self.within(),
        )
        self.register_outputs({})
