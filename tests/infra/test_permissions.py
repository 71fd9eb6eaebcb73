"""The policies of the deploying person: enough for every resource, and no more than that."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from infra.permissions.functions import QUOTAS
from infra.permissions.policies import LIMIT, TABLES, Scope, policy, text
from localstack.deployment.stack_files import ROOT
from localstack.environments import environment
from tests.infra.graph import Graph
from tests.infra.policy import IamPolicy, matches

STACKS = ("dev", "prod", "public", "linked", "localstack")
ACCOUNT = "123456789012"
OURS = {"aws:ResourceTag/Project": "sulina"}
NEW = {"aws:RequestTag/Project": "sulina"}


@pytest.fixture(scope="session")
def deployer() -> IamPolicy:
    """All policies, as files."""
    return IamPolicy.of(*(path.read_text() for path in _files().values()))


def test_every_type_of_resource_has_its_permissions_and_no_other_type_has(
    graph_of: Callable[[str], Graph],
) -> None:
    made: set[str] = set()
    for stack in STACKS:
        graph = graph_of(stack)
        made |= {each.kind for each in graph.resources} | set(graph.asked)
    made = {kind for kind in made if not kind.startswith(("sulina:", "tls:"))}
    listed = {kind for table in TABLES.values() for kind in table}
    missing = made - listed
    assert not missing, f"add what these need to a table in infra/permissions: {sorted(missing)}"
    assert not listed - made - {QUOTAS}, "nothing needs these any more: remove them"


def test_the_files_have_exactly_the_actions_that_the_tables_list() -> None:
    for name, table in TABLES.items():
        needed = {action for needs in table.values() for need in needs for action in need.actions}
        allowed = {action for each in _statements(name) for action in each["Action"]}
        assert allowed == needed
        made = text(policy(name, Scope()))
        assert _files()[name].read_text() == made, "renew it with `python -m infra.permissions`"
    assert set(_files()) == set(TABLES)


def test_iam_accepts_every_file_and_a_user_can_have_all_of_them() -> None:
    for path in _files().values():
        compact = "".join(path.read_text().split())
        assert len(compact) <= LIMIT, f"{path.name}: divide its table"
    assert len(_files()) <= 10


def test_aws_knows_every_action_and_those_that_can_be_restricted_are() -> None:
    for name in TABLES:
        for statement in _statements(name):
            for action in statement["Action"]:
                service, _, operation = action.partition(":")
                known = _aws()[service]["Actions"].get(operation.lower())
                assert known is not None, f"AWS has no action {action}"
                kinds = known.get("Resources", [])
                if not kinds:
                    assert statement["Resource"] == ["*"], f"AWS cannot restrict {action}"
                    continue
                for arn in statement["Resource"]:
                    assert _fits(service, kinds, arn), f"{action} does not apply to {arn}"


def test_only_reading_and_creating_with_our_tag_are_allowed_everywhere() -> None:
    reading = ("Describe", "List", "Get")
    exceptions = {
        "ecs:DeregisterTaskDefinition",
        "route53:CreateHostedZone",
        "servicediscovery:TagResource",
        "servicediscovery:UntagResource",
    }
    for name in TABLES:
        for statement in _statements(name):
            if statement["Resource"] != ["*"]:
                continue
            tagged = statement.get("Condition", {}).get("StringEquals", {})
            for action in statement["Action"]:
                assert (
                    action.partition(":")[2].startswith(reading)
                    or action in exceptions
                    or tagged == NEW
                ), action


def test_roles_are_passed_only_to_the_services_that_use_them(prod: Graph, dev: Graph) -> None:
    trusted = {
        json.loads(made.inputs["assumeRolePolicy"])["Statement"][0]["Principal"]["Service"]
        for graph in (prod, dev)
        for made in graph.all("iam/role:Role")
    }
    trusted.remove("emr-serverless.amazonaws.com")  # a function passes that role to jobs
    passed = [
        (statement["Resource"], statement["Condition"]["StringEquals"]["iam:PassedToService"])
        for name in TABLES
        for statement in _statements(name)
        if "iam:PassRole" in statement["Action"]
    ]
    assert {service for _, services in passed for service in services} == trusted
    for resources, _ in passed:
        assert resources == ["arn:aws:iam::*:role/sulina-*-*"]


@pytest.mark.parametrize("stack", STACKS)
def test_names_of_resources_are_those_that_the_policies_allow(
    graph_of: Callable[[str], Graph], stack: str, deployer: IamPolicy
) -> None:
    actions = {
        "iam/role:Role": "iam:CreateRole",
        "iam/policy:Policy": "iam:CreatePolicy",
        "ecs/cluster:Cluster": "ecs:CreateCluster",
        "ecr/repository:Repository": "ecr:CreateRepository",
        "secretsmanager/secret:Secret": "secretsmanager:CreateSecret",
        "lambda/function:Function": "lambda:CreateFunction",
        "sqs/queue:Queue": "sqs:CreateQueue",
        "sns/topic:Topic": "sns:CreateTopic",
    }
    others = {
        "s3/bucket:Bucket": ("s3:CreateBucket", "arn:aws:s3:::{bucket}"),
        "cloudwatch/logGroup:LogGroup": ("logs:CreateLogGroup", "{logs}log-group:{name}"),
        "cloudwatch/metricAlarm:MetricAlarm": ("cloudwatch:PutMetricAlarm", "{alarms}{name}"),
        "lb/loadBalancer:LoadBalancer": (
            "elasticloadbalancing:CreateLoadBalancer",
            "{elb}loadbalancer/net/{name}/0123456789abcdef",
        ),
        "lb/targetGroup:TargetGroup": (
            "elasticloadbalancing:CreateTargetGroup",
            "{elb}targetgroup/{name}/0123456789abcdef",
        ),
        "kms/alias:Alias": ("kms:CreateAlias", "{kms}{name}"),
        "glue/catalogDatabase:CatalogDatabase": ("glue:CreateDatabase", "{glue}database/{name}"),
        "athena/workgroup:Workgroup": ("athena:CreateWorkGroup", "{athena}workgroup/{name}"),
        "iam/instanceProfile:InstanceProfile": (
            "iam:CreateInstanceProfile",
            f"arn:aws:iam::{ACCOUNT}:instance-profile/{{name}}",
        ),
        "scheduler/scheduleGroup:ScheduleGroup": (
            "scheduler:CreateScheduleGroup",
            "{scheduler}schedule-group/{name}",
        ),
    }
    where = {
        word: f"arn:aws:{service}:eu-central-1:{ACCOUNT}:{tail}"
        for word, service, tail in (
            ("logs", "logs", ""),
            ("alarms", "cloudwatch", "alarm:"),
            ("elb", "elasticloadbalancing", ""),
            ("kms", "kms", ""),
            ("glue", "glue", ""),
            ("athena", "athena", ""),
            ("scheduler", "scheduler", ""),
        )
    }
    graph = graph_of(stack)
    for kind, action in actions.items():
        for made in graph.all(kind):
            assert deployer.allows(action, made.arn), f"{action} on {made.arn}"
            assert not deployer.allows(action, made.arn.replace("sulina", "other"))
    for kind, (action, pattern) in others.items():
        for made in graph.all(kind):
            arn = pattern.format(**{**where, **made.inputs})
            assert deployer.allows(action, arn), f"{action} on {arn}"
            assert not deployer.allows(action, arn.replace("sulina", "other"))


def test_what_belongs_to_others_cannot_be_touched(deployer: IamPolicy) -> None:
    def ec2(kind: str) -> str:
        return f"arn:aws:ec2:eu-central-1:{ACCOUNT}:{kind}/x-1"

    for action, kind in (
        ("TerminateInstances", "instance"),
        ("DeleteVolume", "volume"),
        ("DeleteVpc", "vpc"),
        ("RevokeSecurityGroupIngress", "security-group"),
        ("CreateRoute", "route-table"),
    ):
        assert deployer.allows(f"ec2:{action}", ec2(kind), OURS)
        assert not deployer.allows(f"ec2:{action}", ec2(kind))
    assert deployer.allows("ec2:CreateVpc", ec2("vpc"), NEW)
    assert not deployer.allows("ec2:CreateVpc", ec2("vpc"))
    # Tags are what makes a resource ours: they can be set while creating it, or if it has none.
    tag = "ec2:CreateTags"
    assert deployer.allows(tag, ec2("subnet"), {"ec2:CreateAction": "CreateSubnet"})
    assert not deployer.allows(tag, ec2("subnet"), NEW)
    assert deployer.allows(tag, ec2("security-group"), NEW)
    assert not deployer.allows(
        tag, ec2("security-group"), {**NEW, "aws:ResourceTag/Project": "other"}
    )
    key = f"arn:aws:kms:eu-central-1:{ACCOUNT}:key/1"
    assert not deployer.allows("kms:Decrypt", key, OURS)
    assert deployer.allows(
        "kms:Decrypt", key, {**OURS, "kms:ViaService": "s3.eu-central-1.amazonaws.com"}
    )


def test_policies_can_be_narrowed_to_one_stack_and_account(tmp_path: Path) -> None:
    narrow = ("--stack", "dev", "--region", "eu-west-1", "--account", ACCOUNT)
    command = [sys.executable, "-m", "infra.permissions", "--folder", str(tmp_path), *narrow]
    subprocess.run(command, cwd=ROOT, check=True)
    found = IamPolicy.of(*(path.read_text() for path in tmp_path.glob("*.json")))
    cluster = f"arn:aws:ecs:eu-west-1:{ACCOUNT}:cluster/sulina-dev-cluster"
    assert found.allows("ecs:CreateCluster", cluster)
    assert not found.allows("ecs:CreateCluster", cluster.replace("dev", "prod"))
    assert not found.allows("ecs:CreateCluster", cluster.replace("eu-west-1", "us-east-1"))
    for path in tmp_path.glob("*.json"):
        assert len("".join(path.read_text().split())) <= LIMIT


def _files() -> dict[str, Path]:
    folder = ROOT / "infra" / "permissions" / "policies"
    return {path.stem: path for path in sorted(folder.glob("*.json"))}


def _statements(name: str) -> Iterator[dict[str, Any]]:
    yield from json.loads(_files()[name].read_text())["Statement"]


@cache
def _aws() -> dict[str, Any]:
    """AWS's actions and the resources that they apply to, from the linter that moto depends on."""
    lib = environment("emulators").parent / "lib"
    (path,) = lib.glob("python*/site-packages/cfnlint/data/AdditionalSpecs/Policies.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def _fits(service: str, kinds: list[str], arn: str) -> bool:
    """Whether an ARN with wildcards can be that of one of these kinds of resources."""
    known = {kind.lower(): each for kind, each in _aws()[service]["Resources"].items()}
    tail = arn.split(":", 5)[5]
    for kind in kinds:
        for form in known[kind.lower()]["ARNFormats"]:
            beginning = form.split(":", 5)[5].partition(".*")[0]
            if tail.startswith(beginning) or matches(tail, f"{beginning}x"):
                return True
    return False
