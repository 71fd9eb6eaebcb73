"""The network: who reaches whom, and that nothing else is open."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from infra.config.stack_file import example_settings
from infra.network.addresses import address_of, subnets, zone_of
from infra.network.firewall import most_rules
from tests.infra.graph import Graph

INGRESS = "vpc/securityGroupIngressRule:SecurityGroupIngressRule"
EGRESS = "vpc/securityGroupEgressRule:SecurityGroupEgressRule"


def ways(graph: Graph, kind: str) -> set[tuple[str, str, int]]:
    """Rules as (group, other group or block, port)."""
    names = {made.id: made.name for made in graph.all("ec2/securityGroup:SecurityGroup")}
    found = set()
    for made in graph.all(kind):
        given = made.inputs
        assert given["fromPort"] == given["toPort"]
        assert given["ipProtocol"] == "tcp"
        other = names.get(given.get("referencedSecurityGroupId", ""), "")
        other = other or given.get("cidrIpv4") or given["prefixListId"]
        found.add((names[given["securityGroupId"]], other, int(given["fromPort"])))
    return found


def test_brokers_are_reached_by_the_load_balancer_their_own_network_and_each_other(
    prod: Graph,
) -> None:
    into = {(other, port) for group, other, port in ways(prod, INGRESS) if group == "brokers"}
    assert into == {
        ("balancer", 6655),
        ("balancer", 6650),
        ("balancer", 8080),
        ("balancer", 50051),
        ("brokers", 6655),
        ("brokers", 6650),
        ("brokers", 8080),
        ("functions", 8080),
        ("spark", 6655),
        *(("10.42.0.0/16", port) for port in (6655, 6650, 8080)),
    }


def test_only_brokers_and_its_like_reach_what_keeps_data(prod: Graph) -> None:
    rules = ways(prod, INGRESS)
    assert {rule for rule in rules if rule[0] == "storage"} == {
        ("storage", "brokers", 6660),
        ("storage", "storage", 6660),
    }
    assert {rule for rule in rules if rule[0] == "etcd"} == {
        ("etcd", "brokers", 2379),
        ("etcd", "etcd", 2380),
    }


@pytest.mark.parametrize("stack", ["dev", "prod", "public", "localstack"])
def test_blocks_of_addresses_are_let_in_at_the_load_balancer_and_our_own_at_brokers(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    allowed = "203.0.113.0/24" if stack == "public" else "10.42.0.0/16"
    for group, other, port in ways(graph_of(stack), INGRESS):
        if group == "nat":
            assert (stack, other, port) == ("dev", "10.42.0.0/16", 443)
        elif "/" in other and group == "brokers":
            assert (other, port != 50051) == ("10.42.0.0/16", True)
        elif "/" in other:
            assert (group, other) == ("balancer", allowed)
            assert port in (6655, 6650, 8080, 50051)
            assert stack != "public" or port != 50051


def test_nobody_leaves_but_to_a_named_group_or_to_s3(prod: Graph) -> None:
    for group, other, port in ways(prod, EGRESS):
        assert "/" not in other, group
        if other == "pl-s3":
            assert port == 443
    for made in prod.all("ec2/securityGroup:SecurityGroup"):
        assert "egress" not in made.inputs
        assert "ingress" not in made.inputs


def test_every_way_is_open_at_both_ends(prod: Graph) -> None:
    leave = {(a, b, port) for a, b, port in ways(prod, EGRESS) if b != "pl-s3"}
    enter = {(a, b, port) for b, a, port in ways(prod, INGRESS) if "/" not in a}
    assert leave == enter


def test_private_subnets_have_no_way_out(prod: Graph, graph_of: Callable[[str], Graph]) -> None:
    for kind in ("ec2/natGateway:NatGateway", "ec2/internetGateway:InternetGateway"):
        assert not prod.all(kind)
    public = graph_of("public")
    route = public.one("ec2/route:Route", "internet").inputs
    leading_out = route["routeTableId"]
    for made in public.all("ec2/routeTableAssociation:RouteTableAssociation"):
        assert (made.inputs["routeTableId"] == leading_out) == made.name.startswith("edge-")


def test_services_of_aws_are_reached_by_private_endpoints(prod: Graph, dev: Graph) -> None:
    def services(graph: Graph) -> set[str]:
        made = graph.all("ec2/vpcEndpoint:VpcEndpoint")
        return {each.inputs["serviceName"].split(".", 3)[3] for each in made}

    needed = {"s3", "ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "logs"}
    assert services(prod) == needed | {"secretsmanager", "glue"}
    assert services(dev) == {"s3"}  # the others are reached through the NAT machine
    assert len(prod.one("ec2/vpcEndpoint:VpcEndpoint", "logs").inputs["subnetIds"]) == 2


def test_a_nat_machine_forwards_https_and_nothing_else(dev: Graph) -> None:
    machine = dev.one("ec2/instance:Instance", "nat")
    assert machine.inputs["sourceDestCheck"] is False
    assert machine.inputs["associatePublicIpAddress"] is True
    assert machine.inputs["subnetId"] == dev.one("ec2/subnet:Subnet", "edge-1").id
    assert "iamInstanceProfile" not in machine.inputs
    route = dev.one("ec2/route:Route", "nat").inputs
    assert route["networkInterfaceId"] == machine.outputs["primaryNetworkInterfaceId"]
    assert route["routeTableId"] == dev.one("ec2/routeTable:RouteTable", "private").id
    everywhere = {(group, port) for group, other, port in ways(dev, EGRESS) if "/" in other}
    callers = {"brokers", "etcd", "storage", "functions", "spark"}
    assert everywhere == {(group, 443) for group in (*callers, "nat")}
    assert {port for group, _, port in ways(dev, INGRESS) if group == "nat"} == {443}


def test_the_boot_script_of_the_nat_machine_is_a_script(dev: Graph, tmp_path: Path) -> None:
    script = tmp_path / "boot.sh"
    script.write_text(dev.one("ec2/instance:Instance", "nat").inputs["userData"])
    subprocess.run(["bash", "-n", script], check=True)
    assert "--source 10.42.0.0/16 --jump MASQUERADE" in script.read_text()


def test_a_stack_in_one_zone_has_everything_there(dev: Graph, prod: Graph) -> None:
    def zones(graph: Graph) -> set[str]:
        placed = (*graph.all("ec2/subnet:Subnet"), *graph.all("ebs/volume:Volume"))
        return {made.inputs["availabilityZone"] for made in placed}

    assert zones(dev) == {"eu-central-1a"}
    assert len(zones(prod)) == 3
    for graph, count in ((dev, 1), (prod, 3)):
        balancer = graph.one("lb/loadBalancer:LoadBalancer", "clients").inputs
        assert len(balancer["subnets"]) == count


def test_a_public_balancer_waits_for_the_internet_gateway_and_is_deleted_before_it(
    public: Graph,
) -> None:
    balancer = public.one("lb/loadBalancer:LoadBalancer", "clients")
    assert public.one("ec2/route:Route", "internet").urn in balancer.depends_on


def test_a_network_keeps_its_rule_when_another_one_is_no_longer_allowed(
    graph_of: Callable[[str], Graph],
) -> None:
    rules = graph_of("linked").all(INGRESS)
    of_clients = [rule for rule in rules if rule.inputs.get("cidrIpv4")]
    names = {f"{rule.inputs['cidrIpv4']}-{int(rule.inputs['fromPort'])}" for rule in of_clients}
    assert len(names) == 8  # two networks, four ports
    assert {rule.name.split("-", 1)[1] for rule in of_clients} == names


@pytest.mark.parametrize(
    ("name", "stack", "more"),
    [
        ("dev", "dev", {}),
        ("prod", "prod", {}),
        ("public", "prod", {"public": "true", "allowed": "203.0.113.0/24"}),
        ("linked", "prod", {"allowed": "10.42.0.0/16,10.7.0.0/16"}),
    ],
)
def test_the_rules_of_a_group_are_counted_as_its_quota_counts_them(
    graph_of: Callable[[str], Graph], name: str, stack: str, more: dict[str, str]
) -> None:
    inbound, outbound = (
        Counter(rule.inputs["securityGroupId"] for rule in graph_of(name).all(kind))
        for kind in (INGRESS, EGRESS)
    )
    assert max(inbound.values()) == most_rules(example_settings(stack, more))
    assert max(outbound.values()) <= max(inbound.values())


def test_addresses_never_meet() -> None:
    found = {
        address_of("10.42.0.0/16", kind, number)
        for kind, most in (("etcd", 5), ("storage", 60))
        for number in range(1, most + 1)
    }
    assert len(found) == 65
    blocks = [
        block for zone in subnets("10.42.0.0/16") for block in (zone.work, zone.data, zone.edge)
    ]
    assert len(set(blocks)) == 9
    assert [zone_of(number) for number in (1, 2, 3, 4)] == [0, 1, 2, 0]


def test_the_network_of_a_stack_that_exists_is_not_changed(
    graph_of: Callable[[str], Graph],
) -> None:
    graph = graph_of("moved")
    assert graph.error == (
        "sulina:network 10.43.0.0/16 differs from the network of the VPC sulina-prod, which cannot "
        "be changed: set it back, or delete the stack first with `pulumi destroy`"
    )
    assert not graph.resources
