"""The ways to the brokers: public, mutual TLS, PrivateLink, and directly inside the network."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from infra.config.settings import StackSettings
from infra.errors import DeploymentError
from tests.infra.graph import CreatedResource, Graph
from tests.infra.test_internal_tls import files_of
from tests.infra.test_network import INGRESS, ways

BALANCER = "lb/loadBalancer:LoadBalancer"
LISTENER = "lb/listener:Listener"
TARGETS = "lb/targetGroup:TargetGroup"
RECORD = "route53/record:Record"
SERVICE = "ecs/service:Service"
INSIDE = "brokers.prod.sulina.internal"
PLANS = ("dev", "prod", "public", "mutual", "linked")


def names(graph: Graph, kind: str) -> set[str]:
    return {made.inputs["name"] for made in graph.all(kind)}


def secrets(graph: Graph) -> dict[str, str]:
    """What a broker reads from secrets: variable names, and which value of which secret."""
    return {each["name"]: each["valueFrom"] for each in graph.container("broker")["secrets"]}


def names_in_certificate(graph: Graph) -> list[str]:
    found = x509.load_pem_x509_certificate(files_of(graph, "broker")["certificate"].encode())
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return names.get_values_for_type(x509.DNSName)


def by_name(graph: Graph, kind: str) -> dict[str, CreatedResource]:
    return {made.name: made for made in graph.all(kind)}


# ---- inside the network ----


@pytest.mark.parametrize("plan", ["prod", "public"])
def test_spark_and_functions_reach_brokers_without_leaving_the_network(
    graph_of: Callable[[str], Graph], plan: str
) -> None:
    """The name of a public load balancer leads to public addresses, and there is no way out."""
    into = {(other, port) for group, other, port in ways(graph_of(plan), INGRESS)}
    assert {("spark", 6655), ("functions", 8080)} <= into
    called = {group for group, other, _ in ways(graph_of(plan), INGRESS) if other == "spark"}
    assert called == {"brokers", "services"}


def test_the_internal_name_leads_to_brokers_and_to_their_own_addresses(
    prod: Graph, dev: Graph
) -> None:
    registry = prod.one("servicediscovery/service:Service", "brokers")
    service = prod.one(SERVICE, "broker").inputs
    assert service["serviceRegistries"]["registryArn"] == registry.arn
    assert prod.environment("broker")["SULINA_BROKER_SHARED_NAME"] == INSIDE
    assert prod.outputs["directUrl"] == f"sulina+tls://{INSIDE}:6655"
    assert dev.outputs["directUrl"] == "sulina://brokers.dev.sulina.internal:6655"
    called = prod.one("lambda/function:Function", "discovery").inputs["environment"]["variables"]
    assert called["SULINA_BROKERS"] == f"https://{INSIDE}:8080"
    assert called["SULINA_BROKERS_CA"] == prod.outputs["authorities"]


@pytest.mark.parametrize(
    ("plan", "blocks"),
    [
        ("prod", {"10.42.0.0/16"}),
        ("public", {"10.42.0.0/16"}),
        ("linked", {"10.42.0.0/16", "10.7.0.0/16"}),
    ],
)
def test_clients_reach_brokers_directly_from_private_networks_alone(
    graph_of: Callable[[str], Graph], plan: str, blocks: set[str]
) -> None:
    rules = ways(graph_of(plan), INGRESS)
    direct = {(other, port) for group, other, port in rules if group == "brokers" and "/" in other}
    assert direct == {(block, port) for block in blocks for port in (6655, 6650, 8080)}


# ---- everything is encrypted ----


@pytest.mark.parametrize("plan", ["prod", "public", "mutual", "linked"])
def test_brokers_use_tls_at_every_door_and_with_each_other(
    graph_of: Callable[[str], Graph], plan: str
) -> None:
    graph = graph_of(plan)
    secret = graph.one("secretsmanager/secret:Secret", "internal-broker").arn
    given = secrets(graph)
    for variable, value in (
        ("TLS_CERT", "certificate"),
        ("TLS_KEY", "key"),
        ("PEER_CA", "authorities"),
    ):
        assert given[f"SULINA_BROKER_{variable}"] == f"{secret}:{value}::version-1"
    assert names_in_certificate(graph)[0] == INSIDE


@pytest.mark.parametrize(
    ("plan", "listener", "target"),
    [
        ("dev", "TCP", ("TCP", "HTTP")),
        ("prod", "TLS", ("TLS", "HTTPS")),
        ("public", "TLS", ("TLS", "HTTPS")),
        ("linked", "TLS", ("TLS", "HTTPS")),
        ("mutual", "TCP", ("TCP", "HTTPS")),
    ],
)
def test_nothing_is_decrypted_without_being_encrypted_again(
    graph_of: Callable[[str], Graph], plan: str, listener: str, target: tuple[str, str]
) -> None:
    graph = graph_of(plan)
    for made in graph.all(LISTENER):
        assert made.inputs["protocol"] == listener
        # AWS takes a policy for HTTP/2 only if the targets use TLS.
        wanted = "HTTP2Only" if listener == "TLS" and made.name in ("grpc", "admin") else None
        assert made.inputs.get("alpnPolicy") == wanted
    for made in graph.all(TARGETS):
        check: dict[str, Any] = made.inputs["healthCheck"]
        assert (made.inputs["protocol"], check["protocol"]) == target


# ---- switching ----


def test_switching_makes_the_new_load_balancer_before_the_old_one_goes(
    graph_of: Callable[[str], Graph],
) -> None:
    """A target group belongs to one load balancer, and to one protocol."""
    plans = [graph_of(name) for name in ("prod", "public", "mutual")]
    for kind in (BALANCER, TARGETS):
        found = [names(graph, kind) for graph in plans]
        assert not found[0] & found[1]
        assert all(len(name) <= 32 for each in found for name in each)
    assert not names(plans[1], TARGETS) & names(plans[2], TARGETS)
    for graph in plans:
        [balancer] = graph.all(BALANCER)
        assert not balancer.inputs.get("enableDeletionProtection")
        for made in (balancer, *graph.all(TARGETS)):
            # If the program did not say so, Pulumi would delete what has a fixed name first.
            assert made.options["delete_before_replace"] is False


@pytest.mark.parametrize("plan", ["prod", "public", "mutual"])
def test_the_domain_name_moves_when_brokers_serve_the_new_load_balancer(
    graph_of: Callable[[str], Graph], plan: str
) -> None:
    made = [(each.kind, each.name) for each in graph_of(plan).resources]
    assert made.index((f"aws:{RECORD}", "clients")) > made.index((f"aws:{SERVICE}", "broker"))


def test_a_service_has_no_more_target_groups_than_ecs_takes(
    graph_of: Callable[[str], Graph],
) -> None:
    for plan in PLANS:
        assert len(graph_of(plan).one(SERVICE, "broker").inputs["loadBalancers"]) <= 5


# ---- mutual TLS ----


def test_with_mutual_tls_brokers_see_the_clients_certificates(
    graph_of: Callable[[str], Graph],
) -> None:
    graph = graph_of("mutual")
    given = graph.environment("broker")["SULINA_BROKER_TLS_CLIENT_CA"]
    assert x509.load_pem_x509_certificates(given.encode())
    assert not graph.all("acm/certificate:Certificate")
    assert names_in_certificate(graph) == [INSIDE, "sulina.example.com"]
    assert graph.outputs["url"] == "sulina+tls://sulina.example.com:6655"
    assert "BEGIN CERTIFICATE" in graph.outputs["authorities"]
    assert "SULINA_BROKER_TLS_CLIENT_CA" not in graph_of("public").environment("broker")


# ---- PrivateLink ----


def test_other_accounts_that_are_listed_connect_by_privatelink(
    graph_of: Callable[[str], Graph],
) -> None:
    graph = graph_of("linked")
    [balancer] = graph.all(BALANCER)
    service = graph.one("ec2/vpcEndpointService:VpcEndpointService", "private-link")
    assert service.inputs["networkLoadBalancerArns"] == [balancer.arn]
    assert service.inputs["allowedPrincipals"] == [
        "arn:aws:iam::111122223333:root",
        "arn:aws:iam::444455556666:role/consumer",
    ]
    assert service.inputs["privateDnsName"] == "sulina.example.com"
    assert balancer.inputs["internal"]
    off = balancer.inputs["enforceSecurityGroupInboundRulesOnPrivateLinkTraffic"]
    assert off == "off"
    proof = by_name(graph, RECORD)["private-link"].inputs
    assert (proof["name"], proof["type"]) == ("_proof.sulina.example.com", "TXT")
    assert proof["records"] == ["vpce:1"]
    assert graph.outputs["privateLink"] == service.outputs["serviceName"]


def test_nobody_else_does(graph_of: Callable[[str], Graph]) -> None:
    for plan in ("dev", "prod", "public", "mutual"):
        assert not graph_of(plan).all("ec2/vpcEndpointService:VpcEndpointService")
        assert "privateLink" not in graph_of(plan).outputs


# ---- settings ----

NAMED = {"domain": "a.example.com", "zoneId": "Z1"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({**NAMED, "internalTls": "false"}, "must be true with sulina:domain"),
        ({"clientAuthorities": "nowhere.pem"}, "must be a file with the certificates"),
        ({"clientAuthorities": "{key}"}, "must be a file with the certificates"),
        ({"clientAuthorities": "{pem}", "internalTls": "false"}, "with sulina:clientAuthorities"),
        (
            {"clientAuthorities": "{pem}", "domain": "a.example.com", "certificateArn": "{arn}"},
            "must not be set with sulina:clientAuthorities",
        ),
        ({"privateLink": "1" * 12}, "sulina:domain is not set but must be set with sulina:pri"),
        ({"privateLink": "everybody"}, "must list AWS accounts such as 111122223333"),
        ({"privateLink": "*"}, "must list AWS accounts such as 111122223333"),
        (
            {**NAMED, "privateLink": "1" * 12, "public": "true", "allowed": "203.0.113.0/24"},
            "needs an internal load balancer",
        ),
    ],
)
def test_a_wrong_setting_is_told_in_one_sentence(
    tmp_path: Path, given: dict[str, str], said: str
) -> None:
    (tmp_path / "pem").write_text("-----BEGIN CERTIFICATE-----\n")
    (tmp_path / "key").write_text("-----BEGIN CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\n")
    arn = "arn:aws:acm:eu-central-1:123456789012:certificate/1"
    filled = {
        name: value.format(pem=tmp_path / "pem", key=tmp_path / "key", arn=arn)
        for name, value in given.items()
    }
    with pytest.raises(DeploymentError) as raised:
        StackSettings.parse("test", filled)
    assert said in str(raised.value)
    assert json.dumps(str(raised.value)).count("\\n") == 0


def test_mutual_tls_needs_neither_a_domain_nor_a_certificate_of_ours(tmp_path: Path) -> None:
    (tmp_path / "pem").write_text("-----BEGIN CERTIFICATE-----\n")
    found = StackSettings.parse(
        "test",
        {
            "clientAuthorities": str(tmp_path / "pem"),
            "public": "true",
            "allowed": "203.0.113.0/24",
            "requireTls": "true",
        },
    )
    assert found.tls_ends_at == "broker"
