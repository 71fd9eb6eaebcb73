"""AWS limits the length of names: each fits, for a stack with the longest name."""

from __future__ import annotations

import re
from collections.abc import Callable

from infra.config.settings import LONGEST_STACK
from tests.infra.conftest import LONGEST
from tests.infra.graph import CreatedResource, Graph
from tests.infra.recorder import REGION

LONGEST_REGION = "ap-southeast-1"
LIMITS = {
    "aws:appautoscaling/policy:Policy": 256,
    "aws:athena/workgroup:Workgroup": 128,
    "aws:cloudwatch/dashboard:Dashboard": 255,
    "aws:cloudwatch/eventRule:EventRule": 64,
    "aws:cloudwatch/logGroup:LogGroup": 512,
    "aws:cloudwatch/logMetricFilter:LogMetricFilter": 512,
    "aws:cloudwatch/metricAlarm:MetricAlarm": 255,
    "aws:ec2/securityGroup:SecurityGroup": 255,
    "aws:ecr/repository:Repository": 256,
    "aws:ecs/cluster:Cluster": 255,
    "aws:ecs/service:Service": 255,
    "aws:ecs/taskDefinition:TaskDefinition": 255,
    "aws:emrserverless/application:Application": 64,
    "aws:glue/catalogDatabase:CatalogDatabase": 255,
    "aws:iam/instanceProfile:InstanceProfile": 128,
    "aws:iam/policy:Policy": 128,
    "aws:iam/role:Role": 64,
    "aws:iam/rolePolicy:RolePolicy": 128,
    "aws:kms/alias:Alias": 256,
    "aws:lambda/function:Function": 64,
    "aws:lb/loadBalancer:LoadBalancer": 32,
    "aws:lb/targetGroup:TargetGroup": 32,
    "aws:route53/record:Record": 255,
    "aws:s3/bucket:Bucket": 63,
    "aws:scheduler/schedule:Schedule": 64,
    "aws:scheduler/scheduleGroup:ScheduleGroup": 64,
    "aws:secretsmanager/secret:Secret": 512,
    "aws:servicediscovery/privateDnsNamespace:PrivateDnsNamespace": 253,
    "aws:servicediscovery/service:Service": 63,
    "aws:sns/topic:Topic": 256,
    "aws:sqs/queue:Queue": 80,
}
"""The greatest length of the names of each kind."""


def name_of(made: CreatedResource) -> str | None:
    key = {"s3/bucket:Bucket": "bucket", "ecs/taskDefinition:TaskDefinition": "family"}.get(
        made.kind.removeprefix("aws:"), "name"
    )
    found = made.inputs.get(key) or made.inputs.get("dashboardName")
    return None if found is None else str(found).replace(REGION, LONGEST_REGION)


def test_no_name_is_too_long_or_ends_with_a_hyphen(graph_of: Callable[[str], Graph]) -> None:
    assert len(LONGEST) == LONGEST_STACK
    graph = graph_of("longest")
    assert not graph.error
    seen = set()
    for made in graph.resources:
        name = name_of(made)
        if not made.kind.startswith("aws:") or name is None:
            continue
        seen.add(made.kind)
        assert len(name) <= LIMITS[made.kind], f"{made} is named {name}, {len(name)} characters"
        assert re.match(r"[\w/].*\w\.?$", name), f"{made} is named {name}"
    assert seen >= LIMITS.keys() - {"aws:route53/record:Record"}
    certificates = [made for made in graph.resources if made.kind.startswith("tls:")]
    names = [
        made.inputs["subject"]["commonName"] for made in certificates if "subject" in made.inputs
    ]
    assert max(map(len, names)) <= 64
