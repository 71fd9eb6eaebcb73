"""Members are created together, and changed or replaced one after the other."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from tests.infra.graph import CreatedResource, Graph

GROUPS = ("etcd", "storage")
SERVICE = "ecs/service:Service"
MACHINE = "ec2/instance:Instance"
ATTACHMENT = "ec2/volumeAttachment:VolumeAttachment"


def parts_of(graph: Graph, member: str) -> list[CreatedResource]:
    component = graph.one("sulina:infra:Member", member).urn
    found = [made for made in graph.resources if made.parent == component]
    assert {made.kind for made in found} >= {
        f"aws:{MACHINE}",
        f"aws:{SERVICE}",
        f"aws:{ATTACHMENT}",
    }
    return found


@pytest.mark.parametrize("group", GROUPS)
def test_the_members_of_a_new_group_do_not_wait_for_each_other(prod: Graph, group: str) -> None:
    services = {prod.one(SERVICE, f"{group}-{number}").urn for number in (1, 2, 3)}
    for number in (1, 2, 3):
        for part in parts_of(prod, f"{group}-{number}"):
            assert not prod.before(part) & (services - {part.urn}), str(part)


@pytest.mark.parametrize(
    "order", [("etcd-1", "etcd-2", "etcd-3"), ("storage-2", "storage-1", "storage-3")]
)
def test_a_member_waits_until_the_previous_one_is_healthy_and_one_that_is_gone_is_first(
    deployed: Graph, order: Sequence[str]
) -> None:
    for earlier, later in itertools.pairwise(order):
        service = deployed.one(SERVICE, earlier)
        assert service.inputs["waitForSteadyState"]
        for part in parts_of(deployed, later):
            assert service.urn in deployed.before(part), str(part)
    others = {deployed.one(SERVICE, member).urn for member in order[1:]}
    for part in parts_of(deployed, order[0]):
        assert not deployed.before(part) & others, str(part)


def test_the_order_of_members_in_lists_does_not_depend_on_the_order_of_changes(
    prod: Graph, deployed: Graph
) -> None:
    assert prod.environment("broker") == deployed.environment("broker")
    for name in ("etcd-1", "storage-1"):
        assert prod.container(name) == deployed.container(name)


def test_brokers_have_as_long_as_ecs_needs_to_give_up(prod: Graph) -> None:
    brokers = prod.one(SERVICE, "broker")
    assert brokers.options["minutes"] == {"create": "30m", "update": "30m"}


def test_brokers_change_after_all_members(prod: Graph, deployed: Graph) -> None:
    for graph in (prod, deployed):
        before = graph.before(graph.one(SERVICE, "broker"))
        for group, number in itertools.product(GROUPS, (1, 2, 3)):
            assert graph.one(SERVICE, f"{group}-{number}").urn in before


def test_a_new_machine_is_a_new_deployment_so_that_there_is_something_to_wait_for(
    prod: Graph,
) -> None:
    for group, number in itertools.product(GROUPS, (1, 2, 3)):
        service = prod.one(SERVICE, f"{group}-{number}")
        machine = prod.one(MACHINE, service.name)
        assert service.inputs["triggers"] == {"machine": machine.id}
        assert service.uses["triggers"] == [machine.urn]
        assert service.inputs["forceNewDeployment"]
        attached = prod.one(ATTACHMENT, service.name)
        assert attached.urn in service.depends_on
        # A deployment that failed is made and awaited again, also if nothing else has changed.
        assert service.options["replace_on_changes"] == ["#initerror"]
        assert service.options["delete_before_replace"]
        # A version that does not start is given up before Pulumi gives up.
        assert service.inputs["deploymentCircuitBreaker"] == {"enable": True, "rollback": True}
        check = prod.container(service.name)["healthCheck"]
        attempt = check["startPeriod"] + check["retries"] * (check["interval"] + check["timeout"])
        assert service.options["minutes"] == {"create": "30m", "update": "30m"}
        assert 3 * attempt < 30 * 60


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_a_member_s_container_starts_when_it_can_reach_its_image_secrets_log_and_name(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    """ECS gives up after three failed starts, and the machine is faster than an endpoint.

    etcd ends if its own name does not resolve for half a minute.
    """
    graph = graph_of(stack)
    kinds = ("ec2/vpcEndpoint:VpcEndpoint", "vpc/securityGroupEgressRule:SecurityGroupEgressRule")
    ways = {made.urn for kind in kinds for made in graph.all(kind)}
    if stack == "dev":
        ways |= {graph.one(kind, "nat").urn for kind in (MACHINE, "ec2/route:Route")}
    for service in graph.all(SERVICE):
        before = graph.before(service)
        assert ways <= before, service.name
        if service.name != "broker":
            group = service.name.rpartition("-")[0]
            assert graph.one("cloudwatch/logGroup:LogGroup", group).urn in before
            assert graph.one("servicediscovery/instance:Instance", service.name).urn in before


def test_a_member_s_container_stays_on_its_machine(prod: Graph) -> None:
    """Unless it is told otherwise, ECS would move containers between zones."""
    for service in prod.all(SERVICE):
        wanted = "ENABLED" if service.name == "broker" else "DISABLED"
        assert service.inputs["availabilityZoneRebalancing"] == wanted


def test_replacing_a_machine_replaces_its_attachment_and_nothing_else(deployed: Graph) -> None:
    """The engine also replaces what has the machine's id in an input that cannot be changed.

    A service's triggers and an alarm's dimensions can be changed.
    """
    for machine in deployed.all(MACHINE):
        users = {
            (made.kind, name)
            for made in deployed.resources
            for name, urns in made.uses.items()
            if machine.urn in urns
        }
        assert users == {
            (f"aws:{ATTACHMENT}", "instanceId"),
            (f"aws:{SERVICE}", "triggers"),
            ("aws:cloudwatch/metricAlarm:MetricAlarm", "dimensions"),
        }


def test_a_machine_can_be_replaced_although_it_is_protected_and_keeps_its_volume_until_then(
    prod: Graph,
) -> None:
    for machine in prod.all(MACHINE):
        assert machine.inputs["disableApiTermination"]
        assert machine.inputs["forceDestroy"]
        assert machine.options["delete_before_replace"]  # the address can be used once
        attached = prod.one(ATTACHMENT, machine.name)
        assert attached.options["delete_before_replace"]
        assert attached.inputs["skipDestroy"]  # the volume leaves when the machine has gone
        assert "stopInstanceBeforeDetaching" not in attached.inputs
        volume = prod.one("ebs/volume:Volume", machine.name)
        assert volume.options["protect"]
        assert machine.urn not in prod.before(volume)


def test_another_type_or_volume_replaces_the_machine_and_a_newer_image_does_not(
    prod: Graph,
) -> None:
    for machine in prod.all(MACHINE):
        assert machine.options["replace_on_changes"] == ["instanceType"]
        assert machine.options["ignore_changes"] == ["userData", "ami"]
        volume = prod.one("ebs/volume:Volume", machine.name)
        assert machine.options["replacement_trigger"] == volume.id


def test_a_machine_image_that_is_configured_replaces_machines(public: Graph) -> None:
    machines = public.all(MACHINE)
    assert {machine.inputs["ami"] for machine in machines} == {"ami-00000000000000001"}
    assert all(machine.options["ignore_changes"] == ["userData"] for machine in machines)


def test_subnets_and_volumes_stay_in_their_zones_when_the_regions_list_changes(
    prod: Graph,
) -> None:
    for subnet in prod.all("ec2/subnet:Subnet"):
        assert subnet.options["ignore_changes"] == ["availabilityZone"]
    for volume in prod.all("ebs/volume:Volume"):
        (subnet_urn,) = volume.uses["availabilityZone"]
        assert "data-" in subnet_urn


def test_brokers_that_were_rolled_back_are_not_taken_for_deployed(
    graph_of: Callable[[str], Graph],
) -> None:
    said = graph_of("behind").error
    assert said == (
        "broker runs arn:aws:ecs:eu-central-1:123456789012:broker:1, not "
        "arn:aws:ecs:eu-central-1:123456789012:broker, which did not start when it was deployed: "
        "read its log, correct the cause, and run `pulumi up --refresh`"
    )
