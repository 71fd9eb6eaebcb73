"""Autoscaling of brokers by what the load manager knows of them.

The function ``scaler`` asks for the load reports of the brokers, on which the load manager decides,
and tells CloudWatch how full they are; target tracking keeps that near the configured value. The
CPU that ECS measures would miss that a broker can run out of network before.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.brokers import Brokers
from infra.figures import DIMENSION, LOAD, NAMESPACE
from infra.ground import Ground
from infra.tier import Tier


class Scaling(Tier):
    """How many brokers there are."""

    def __init__(self, ground: Ground, brokers: Brokers, parent: pulumi.Resource) -> None:
        settings, cluster = ground.settings, ground.containers.cluster
        super().__init__("Scaling", settings, ground.place, parent)
        service = pulumi.Output.concat("service/", cluster.name, "/", brokers.service.name)
        target = aws.appautoscaling.Target(
            "brokers",
            service_namespace="ecs",
            scalable_dimension="ecs:service:DesiredCount",
            resource_id=service,
            # Without an image there is nothing to run yet.
            min_capacity=settings.brokers.least if settings.runs else 0,
            max_capacity=settings.brokers.most,
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
                    "dimensions": [{"name": DIMENSION, "value": settings.prefix}],
                },
                "scale_out_cooldown": 120,
                # Topics are moved when a broker goes, and the balance needs time to settle.
                "scale_in_cooldown": 900,
            },
            opts=self.within(),
        )
        self.register_outputs({})
