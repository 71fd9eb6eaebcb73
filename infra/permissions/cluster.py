"""What deploying containers, the load balancer and scaling needs."""

from __future__ import annotations

from typing import Final

from infra.permissions.needs import Needs, anything, linked_role, named, pass_role

_ECS = ("cluster/{prefix}-*", "service/{prefix}-*", "task-definition/{prefix}-*")
_ECS_TAGS = named("ecs", "ListTagsForResource TagResource UntagResource", *_ECS)
_BALANCER = ("loadbalancer/net/{prefix}*", "listener/net/{prefix}*", "targetgroup/{prefix}-*")
_BALANCER_TAGS = (
    named("elasticloadbalancing", "AddTags RemoveTags", *_BALANCER),
    anything("elasticloadbalancing", "DescribeTags"),
)


CLUSTER: Final[Needs] = {
    "aws:ecs/cluster:Cluster": (
        named(
            "ecs",
            "CreateCluster DeleteCluster DescribeClusters UpdateCluster",
            "cluster/{prefix}-*",
        ),
        _ECS_TAGS,
        linked_role("ecs.amazonaws.com"),
    ),
    "aws:ecs/clusterCapacityProviders:ClusterCapacityProviders": (
        named("ecs", "DescribeClusters PutClusterCapacityProviders", "cluster/{prefix}-*"),
    ),
    "aws:ecs/taskDefinition:TaskDefinition": (
        named("ecs", "RegisterTaskDefinition", "task-definition/{prefix}-*"),
        anything("ecs", "DeregisterTaskDefinition DescribeTaskDefinition"),
        _ECS_TAGS,
        pass_role("ecs-tasks.amazonaws.com"),
    ),
    "aws:ecs/service:Service": (
        named(
            "ecs",
            "CreateService DeleteService DescribeServices ListServiceDeployments UpdateService",
            _ECS[1],
        ),
        named("ecs", "DescribeServiceDeployments", "service-deployment/{prefix}-*"),
        _ECS_TAGS,
    ),
    "aws:ecs/getService:getService": (named("ecs", "DescribeServices", _ECS[1]),),
    "aws:lb/loadBalancer:LoadBalancer": (
        named(
            "elasticloadbalancing",
            "CreateLoadBalancer DeleteLoadBalancer ModifyLoadBalancerAttributes SetSecurityGroups "
            "SetSubnets",
            _BALANCER[0],
        ),
        anything(
            "elasticloadbalancing",
            "DescribeCapacityReservation DescribeLoadBalancerAttributes DescribeLoadBalancers",
        ),
        anything("ec2", "DescribeInternetGateways DescribeSecurityGroups DescribeSubnets"),
        *_BALANCER_TAGS,
        linked_role("elasticloadbalancing.amazonaws.com"),
    ),
    "aws:lb/targetGroup:TargetGroup": (
        named(
            "elasticloadbalancing",
            "CreateTargetGroup DeleteTargetGroup ModifyTargetGroup ModifyTargetGroupAttributes",
            _BALANCER[2],
        ),
        anything("elasticloadbalancing", "DescribeTargetGroupAttributes DescribeTargetGroups"),
        *_BALANCER_TAGS,
    ),
    "aws:lb/listener:Listener": (
        named("elasticloadbalancing", "CreateListener", _BALANCER[0]),
        named(
            "elasticloadbalancing",
            "DeleteListener ModifyListener ModifyListenerAttributes",
            _BALANCER[1],
        ),
        anything("elasticloadbalancing", "DescribeListenerAttributes DescribeListeners"),
        *_BALANCER_TAGS,
    ),
    "aws:appautoscaling/target:Target": (
        named(
            "application-autoscaling",
            "DeregisterScalableTarget ListTagsForResource RegisterScalableTarget TagResource "
            "UntagResource",
            "scalable-target/*",
        ),
        anything("application-autoscaling", "DescribeScalableTargets"),
        named("ecs", "DescribeServices UpdateService", _ECS[1]),
        linked_role("ecs.application-autoscaling.amazonaws.com"),
    ),
    "aws:appautoscaling/policy:Policy": (
        named(
            "application-autoscaling", "DeleteScalingPolicy PutScalingPolicy", "scalable-target/*"
        ),
        anything("application-autoscaling", "DescribeScalingPolicies"),
        # Target tracking creates alarms with names of its own.
        named(
            "cloudwatch",
            "DeleteAlarms DescribeAlarms PutMetricAlarm",
            "alarm:TargetTracking-service/{prefix}-*",
        ),
    ),
}
