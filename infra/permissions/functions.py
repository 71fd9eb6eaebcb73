"""What deploying functions, Spark, logs, alarms and the checks before a deployment needs."""

from __future__ import annotations

from typing import Final

from infra.permissions.needs import Needs, anything, linked_role, named, new, ours, pass_role

QUOTAS: Final = "infra.preflight.quotas"
"""Not a type of resource, but the check of quotas."""
_ALARM = "alarm:{prefix}-*"
_FUNCTION = "function:{prefix}-*"
_LOG = ("log-group:/{prefix}/*",)
_RULE = "rule/{prefix}-*"
_SPARK = "ops.emr-serverless.amazonaws.com"
_TAGS = "ListTagsForResource TagResource UntagResource"
_TOPIC = "{prefix}-*"

FUNCTIONS: Final[Needs] = {
    "aws:lambda/function:Function": (
        named(
            "lambda",
            "CreateFunction DeleteFunction GetFunction GetFunctionCodeSigningConfig "
            "GetFunctionConfiguration ListTags ListVersionsByFunction TagResource UntagResource "
            "UpdateFunctionCode UpdateFunctionConfiguration",
            _FUNCTION,
        ),
        anything("ec2", "DescribeSecurityGroups DescribeSubnets DescribeVpcs"),
        pass_role("lambda.amazonaws.com"),
    ),
    "aws:lambda/functionEventInvokeConfig:FunctionEventInvokeConfig": (
        named(
            "lambda",
            "DeleteFunctionEventInvokeConfig GetFunctionEventInvokeConfig "
            "PutFunctionEventInvokeConfig",
            _FUNCTION,
        ),
    ),
    "aws:lambda/functionUrl:FunctionUrl": (
        named(
            "lambda",
            "CreateFunctionUrlConfig DeleteFunctionUrlConfig GetFunctionUrlConfig "
            "UpdateFunctionUrlConfig",
            _FUNCTION,
        ),
    ),
    "aws:lambda/permission:Permission": (
        named("lambda", "AddPermission GetPolicy RemovePermission", _FUNCTION),
    ),
    "aws:scheduler/scheduleGroup:ScheduleGroup": (
        named(
            "scheduler",
            f"CreateScheduleGroup DeleteScheduleGroup GetScheduleGroup {_TAGS}",
            "schedule-group/{prefix}",
        ),
        # Deleting a group deletes its schedules.
        named("scheduler", "DeleteSchedule", "schedule/{prefix}/*"),
    ),
    "aws:scheduler/schedule:Schedule": (
        named(
            "scheduler",
            "CreateSchedule DeleteSchedule GetSchedule UpdateSchedule",
            "schedule/{prefix}/*",
        ),
        pass_role("scheduler.amazonaws.com"),
    ),
    "aws:emrserverless/application:Application": (
        new("emr-serverless", "CreateApplication"),
        new("emr-serverless", "TagResource", "/applications/*"),
        ours(
            "emr-serverless",
            f"DeleteApplication GetApplication UpdateApplication {_TAGS}",
            "/applications/*",
        ),
        # EMR checks with this that it may place workers in our subnets.
        named(
            "ec2",
            "CreateNetworkInterface",
            *("network-interface/*", "security-group/*", "subnet/*"),
            when={"StringEquals": {"aws:CalledViaLast": _SPARK}},
        ),
        linked_role(_SPARK),
    ),
    "aws:sqs/queue:Queue": (
        named(
            "sqs",
            "CreateQueue DeleteQueue GetQueueAttributes GetQueueUrl ListQueueTags "
            "SetQueueAttributes TagQueue UntagQueue",
            _TOPIC,
        ),
    ),
    "aws:sns/topic:Topic": (
        named(
            "sns", f"CreateTopic DeleteTopic GetTopicAttributes SetTopicAttributes {_TAGS}", _TOPIC
        ),
    ),
    "aws:sns/topicPolicy:TopicPolicy": (
        named("sns", "GetTopicAttributes SetTopicAttributes", _TOPIC),
    ),
    "aws:sns/topicSubscription:TopicSubscription": (
        named("sns", "GetSubscriptionAttributes Subscribe Unsubscribe", _TOPIC),
    ),
    "aws:cloudwatch/logGroup:LogGroup": (
        named(
            "logs",
            f"AssociateKmsKey CreateLogGroup DeleteLogGroup PutRetentionPolicy {_TAGS}",
            *_LOG,
        ),
        anything("logs", "DescribeLogGroups"),
    ),
    "aws:cloudwatch/logMetricFilter:LogMetricFilter": (
        named("logs", "DeleteMetricFilter DescribeMetricFilters PutMetricFilter", *_LOG),
    ),
    "aws:cloudwatch/metricAlarm:MetricAlarm": (
        named("cloudwatch", f"DeleteAlarms DescribeAlarms PutMetricAlarm {_TAGS}", _ALARM),
    ),
    "aws:cloudwatch/dashboard:Dashboard": (
        named(
            "cloudwatch",
            "DeleteDashboards GetDashboard PutDashboard",
            "arn:aws:cloudwatch::{account}:dashboard/{prefix}",
        ),
    ),
    "aws:cloudwatch/eventRule:EventRule": (
        named("events", f"DeleteRule DescribeRule PutRule {_TAGS}", _RULE),
    ),
    "aws:cloudwatch/eventTarget:EventTarget": (
        named("events", "ListTargetsByRule PutTargets RemoveTargets", _RULE),
    ),
    # What the program asks before it creates anything.
    QUOTAS: (
        named("servicequotas", "GetServiceQuota", "*"),
        anything("servicequotas", "GetAWSDefaultServiceQuota"),
        anything(
            "ec2",
            "DescribeInstanceTypes DescribeInstances DescribeInternetGateways "
            "DescribeVpcEndpoints DescribeVpcs",
        ),
        anything("elasticloadbalancing", "DescribeLoadBalancers"),
    ),
    "aws:index/getAvailabilityZones:getAvailabilityZones": (
        anything("ec2", "DescribeAvailabilityZones"),
    ),
    "aws:ec2/getInstances:getInstances": (anything("ec2", "DescribeInstances"),),
    "aws:ec2/getVpcs:getVpcs": (anything("ec2", "DescribeVpcs"),),
    "aws:index/getCallerIdentity:getCallerIdentity": (),  # needs no permission
    "aws:index/getPartition:getPartition": (),
    "aws:index/getRegion:getRegion": (),
    "aws:ecr/getAuthorizationToken:getAuthorizationToken": (
        anything("ecr", "GetAuthorizationToken"),
    ),
    "aws:secretsmanager/getRandomPassword:getRandomPassword": (
        anything("secretsmanager", "GetRandomPassword"),
    ),
    "aws:ssm/getParameter:getParameter": (
        named("ssm", "GetParameter", "arn:aws:ssm:{region}::parameter/aws/service/ecs/*"),
    ),
}
