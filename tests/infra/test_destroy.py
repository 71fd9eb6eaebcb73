"""`pulumi destroy` leaves nothing behind, except what a protected stack is meant to keep."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from infra.artifacts import ROOT
from tests.infra.graph import CreatedResource, Graph

Rule = Callable[[dict[str, Any]], bool]
EMPTIED: dict[str, Rule] = {
    "s3/bucket:Bucket": lambda given: given["forceDestroy"] is True,
    "ecr/repository:Repository": lambda given: given["forceDelete"] is True,
    "athena/workgroup:Workgroup": lambda given: given["forceDestroy"] is True,
    "secretsmanager/secret:Secret": lambda given: given["recoveryWindowInDays"] == 0,
    "kms/key:Key": lambda given: given["deletionWindowInDays"] == 7,
    "ebs/volume:Volume": lambda given: given["finalSnapshot"] is False,
    "ec2/instance:Instance": lambda given: (
        not given.get("disableApiTermination")
        and given["rootBlockDevice"].get("deleteOnTermination", True)
    ),
    "lb/loadBalancer:LoadBalancer": lambda given: given["enableDeletionProtection"] is False,
    "cloudwatch/logGroup:LogGroup": lambda given: not given.get("skipDestroy"),
    "ecs/taskDefinition:TaskDefinition": lambda given: not given.get("skipDestroy"),
    "servicediscovery/service:Service": lambda given: given["forceDestroy"] is True,
}
"""Types whose deletion fails, waits or leaves something, unless an input says otherwise."""
KEPT = ("backups", "images", "keys", "secrets", "task definitions", "metrics", "roles of services")
"""What docs/deploy.md says about what stays."""


@pytest.mark.parametrize("stack", ["dev", "localstack"])
def test_an_unprotected_stack_can_be_deleted_with_all_that_it_contains(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    graph = graph_of(stack)
    for kind, gone in EMPTIED.items():
        for made in graph.all(kind):
            assert gone(made.inputs), str(made)
    for made in graph.resources:
        assert not made.options["protect"], str(made)
    assert not graph.all("dlm/lifecyclePolicy:LifecyclePolicy"), "its snapshots would stay"


def test_a_protected_stack_refuses_to_delete_data(prod: Graph) -> None:
    def protected(kind: str) -> bool:
        return all(made.options["protect"] for made in prod.all(kind))

    assert protected("s3/bucket:Bucket")
    assert protected("ebs/volume:Volume")
    assert protected("kms/key:Key")
    assert prod.one("secretsmanager/secret:Secret", "token").options["protect"]
    for volume in prod.all("ebs/volume:Volume"):
        assert volume.inputs["finalSnapshot"]
    assert prod.all("dlm/lifecyclePolicy:LifecyclePolicy")


def test_a_protected_stack_refuses_before_anything_is_deleted(prod: Graph, dev: Graph) -> None:
    """What depends on everything is deleted first; the first refusal ends the deletion."""
    for graph, protected in ((prod, True), (dev, False)):
        guard = graph.one("sulina:infra:DeletionGuard", "deletion-guard")
        assert guard.options["protect"] is protected
        others = {made.urn for made in graph.resources if not made.kind.startswith("sulina:")}
        assert others == set(guard.depends_on)


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_no_log_group_appears_that_the_stack_does_not_own(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    graph = graph_of(stack)
    owned = {made.inputs["name"] for made in graph.all("cloudwatch/logGroup:LogGroup")}
    for made in graph.all("lambda/function:Function"):
        assert made.inputs["loggingConfig"]["logGroup"] in owned
        assert "logs:CreateLogGroup" not in json.dumps(_policies(graph, made.name))
    for made in graph.all("ecs/taskDefinition:TaskDefinition"):
        for container in graph.containers(made.name):
            options = container["logConfiguration"]["options"]
            assert options["awslogs-group"] in owned
            assert "awslogs-create-group" not in options
    # Container Insights and Spark would write to groups of their own.
    cluster = graph.one("ecs/cluster:Cluster", "cluster").inputs
    assert cluster["settings"] == [{"name": "containerInsights", "value": "disabled"}]
    for made in graph.all("emrserverless/application:Application"):
        assert "monitoringConfiguration" not in made.inputs


def test_the_machine_behind_the_internet_gateway_is_deleted_before_it(dev: Graph) -> None:
    machine = dev.one("ec2/instance:Instance", "nat")
    route = dev.one("ec2/route:Route", "internet")
    gateway = dev.one("ec2/internetGateway:InternetGateway", "internet")
    assert route.urn in machine.depends_on
    assert gateway.urn in route.depends_on


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_disks_and_containers_have_tags_too(graph_of: Callable[[str], Graph], stack: str) -> None:
    def tags(made: CreatedResource) -> set[str]:
        return set(made.inputs["rootBlockDevice"]["tags"])

    graph = graph_of(stack)
    for made in graph.all("ec2/instance:Instance"):
        assert tags(made) == {"Project", "Stack", "Owner", "ManagedBy", "Name"}
    for made in graph.all("ecs/service:Service"):
        assert made.inputs["propagateTags"] == "SERVICE"


def test_an_upgrade_goes_from_storage_nodes_to_brokers_to_functions(prod: Graph) -> None:
    brokers = prod.one("ecs/service:Service", "broker")
    for made in prod.all("ecs/service:Service"):
        if made.name != "broker":
            assert made.urn in brokers.depends_on
    for made in prod.all("lambda/function:Function"):
        assert brokers.urn in made.depends_on


def test_progress_is_told_phase_by_phase(dev: Graph, prod: Graph) -> None:
    for graph in (dev, prod):
        plan = next(each for each in graph.said if each.startswith("a first deployment takes"))
        assert "about 15 minutes" in plan
        finished = [each for each in graph.said if each.startswith("done: ")]
        assert finished[-1] == "done: functions and Spark"
        for phase in ("network, keys and buckets", "images", "etcd-1 runs", "brokers run"):
            assert f"done: {phase}" in finished


def test_the_page_lists_what_stays() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()
    section = page.partition("## Delete it\n")[2].partition("\n## ")[0].lower()
    for each in KEPT:
        assert each in section, each


def _policies(graph: Graph, role: str) -> list[str]:
    return [
        made.inputs["policy"]
        for made in graph.all("iam/rolePolicy:RolePolicy")
        if made.name == role
    ]
