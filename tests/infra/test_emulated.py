"""The real program on an emulated AWS: everything was made, and boto3 finds it as it should be."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from localstack.deployment.account import EmulatedAccount
from localstack.deployment.inputs import ResourceInputs
from localstack.deployment.maker import EmulatedMaker
from tests.infra.graph import Graph
from tests.infra.policy import IamPolicy


def test_the_same_resources_are_made_as_in_the_graph(emulated: Graph, prod: Graph) -> None:
    def counted(graph: Graph) -> list[tuple[str, str]]:
        return sorted((made.kind, made.name) for made in graph.resources)

    assert counted(emulated) == counted(prod)
    assert len(emulated.resources) > 250


def test_the_development_stack_is_made_too(graph_of: Callable[[str], Graph], dev: Graph) -> None:
    made = graph_of("emulated-dev")
    assert not made.error
    assert {str(each) for each in made.resources} == {str(each) for each in dev.resources}


def test_the_load_balancer_leads_to_the_ports_of_the_brokers(emulated: Graph) -> None:
    targets = {each["TargetGroupArn"]: each for each in emulated.seen["targetGroups"]}
    doors = {}
    for listener in emulated.seen["listeners"]:
        target = targets[listener["DefaultActions"][0]["TargetGroupArn"]]
        doors[listener["Port"]] = target
        assert listener["Protocol"] == "TLS"
        assert listener["SslPolicy"].startswith("ELBSecurityPolicy-TLS13")
        grpc = listener["Port"] in (6650, 50051)
        assert listener["AlpnPolicy"] == (["HTTP2Only"] if grpc else [])
        assert listener["Certificates"][0]["CertificateArn"].startswith("arn:aws:acm:")
        assert target["Port"] == listener["Port"]
        assert target["TargetType"] == "ip"
        assert target["HealthCheckPort"] == "8080"
        assert target["HealthCheckPath"] == "/health/live"
        assert target["Attributes"]["deregistration_delay.timeout_seconds"] == "30"
    assert sorted(doors) == [6650, 6655, 8080, 50051]
    broker = _service(emulated, "broker")
    joined = {each["containerPort"]: each["targetGroupArn"] for each in broker["loadBalancers"]}
    assert joined == {port: target["TargetGroupArn"] for port, target in doors.items()}
    listened = broker["definition"]["containerDefinitions"][0]["portMappings"]
    assert {each["containerPort"] for each in listened} == set(doors)


def test_each_schedule_calls_its_function_with_a_role_that_may(emulated: Graph) -> None:
    schedules, functions = emulated.seen["schedules"], emulated.seen["functions"]
    called = {
        "statistics": "analytics",
        "audit": "analytics",
        "compaction": "analytics",
        "catalog": "catalog",
        "janitor": "janitor",
        "scaler": "scaler",
    }
    assert schedules.keys() == called.keys()
    for name, function in called.items():
        target = schedules[name]["Target"]
        arn = functions[f"sulina-prod-{function}"]["FunctionArn"]
        assert target["Arn"] == arn
        role = target["RoleArn"].rpartition("/")[2]
        assert _policy(emulated, role).allows("lambda:InvokeFunction", arn)
        if function == "analytics":  # which refuses jobs that overlap
            assert json.loads(target["Input"])["job"] == name


def test_the_function_that_schedules_call_may_start_jobs(emulated: Graph) -> None:
    function = emulated.seen["functions"]["sulina-prod-analytics"]
    told = function["Environment"]["Variables"]
    application = emulated.seen["applications"][0]
    assert told["SULINA_EMR_APPLICATION"] == application["id"]
    may = _policy(emulated, function["Role"].rpartition("/")[2])
    assert may.allows("emr-serverless:StartJobRun", application["arn"])
    passing = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
    assert may.allows("iam:PassRole", told["SULINA_JOB_ROLE"], passing)
    assert told["SULINA_JOB_ROLE"] == emulated.seen["roles"]["sulina-prod-job"]["arn"]


def test_functions_have_the_handlers_that_were_agreed_on(emulated: Graph) -> None:
    for name, function in emulated.seen["functions"].items():
        short = name.removeprefix("sulina-prod-")
        assert function["Handler"] == f"functions.{short}.handler.handler"
        inside = bool(function.get("VpcConfig", {}).get("SubnetIds"))
        assert inside == (short == "discovery")


def test_every_role_has_a_policy_of_its_own_and_none_of_anybody_else(emulated: Graph) -> None:
    for name, role in emulated.seen["roles"].items():
        assert not role["attached"], name
        assert len(role["policies"]) <= 1, name


def test_the_lake_refuses_who_comes_without_tls(emulated: Graph) -> None:
    assert emulated.seen["withoutTls"] == "403"


def test_the_database_of_the_topics_tables_is_there(emulated: Graph) -> None:
    assert emulated.seen["database"]["Database"]["Name"] == "sulina_prod"


def test_wrong_arguments_fail() -> None:
    maker = EmulatedMaker("http://127.0.0.1:9", "eu-central-1")
    with pytest.raises(Exception, match="Unknown parameter in input"):
        maker.make(
            "aws:ec2/subnet:Subnet", "x", {"mapPublicIpOnLaunch": False, "cidr": "10.0.0.0/8"}
        )
    with pytest.raises(ValueError, match="unused inputs"):
        ResourceInputs({"name": "x"}).end()
    with pytest.raises(Exception, match="Missing required parameter"):
        EmulatedAccount("http://127.0.0.1:9", "eu-central-1", {}).check(
            "dlm", "CreateLifecyclePolicy", {}
        )


def _service(graph: Graph, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        each for each in graph.seen["services"] if each["serviceName"] == f"sulina-prod-{name}"
    )
    return found


def _policy(graph: Graph, role: str) -> IamPolicy:
    return IamPolicy.of(*graph.seen["roles"][role]["policies"])
