"""The gateway between Pulumi's plugin and an emulated AWS, and what it adds for ECS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ProxyConnectionError

from localstack.emulators.moto import ACCOUNT
from localstack.emulators.server import EmulatorServer
from localstack.gateway.ecs import BROKEN, EcsDeployments
from localstack.gateway.prometheus import AlertManagers
from localstack.gateway.route53 import DnsRecords
from localstack.gateway.server import Answer, Call, Gateway

_KEYS = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}


@pytest.fixture
def gateway(moto: EmulatorServer) -> Iterator[Gateway]:
    with Gateway(moto.url, [EcsDeployments()]) as made:
        yield made


def test_what_has_no_endpoint_is_refused_and_remembered(gateway: Gateway) -> None:
    once = Config(proxies={"https": gateway.url}, retries={"total_max_attempts": 1})
    glue = boto3.client("glue", config=once, **_KEYS)

    with pytest.raises(ProxyConnectionError):
        glue.get_databases()

    assert gateway.refused == ["glue.us-east-1.amazonaws.com:443"]


def test_a_host_with_an_account_in_front_reaches_the_emulator(gateway: Gateway) -> None:
    s3 = boto3.client("s3", endpoint_url=gateway.url, **_KEYS)
    s3.create_bucket(Bucket="tagged")
    tags = [{"Key": "a", "Value": "1"}]
    s3.put_bucket_tagging(Bucket="tagged", Tagging={"TagSet": tags})
    named = gateway.url.replace("127.0.0.1", "localhost")
    control = boto3.client(
        "s3control", endpoint_url=named, config=Config(proxies={"http": gateway.url}), **_KEYS
    )

    seen = control.list_tags_for_resource(AccountId=ACCOUNT, ResourceArn="arn:aws:s3:::tagged")

    assert seen["Tags"] == tags
    assert not gateway.refused


def test_large_and_empty_objects_pass_as_they_are(gateway: Gateway) -> None:
    s3 = boto3.client("s3", endpoint_url=gateway.url, **_KEYS)
    s3.create_bucket(Bucket="passing")

    for key, body in (("large", b"x" * 3_000_000), ("empty", b"")):
        s3.put_object(Bucket="passing", Key=key, Body=body)
        assert s3.head_object(Bucket="passing", Key=key)["ContentLength"] == len(body)
        assert s3.get_object(Bucket="passing", Key=key)["Body"].read() == body


def test_services_run_what_they_should(gateway: Gateway) -> None:
    ecs = boto3.client("ecs", endpoint_url=gateway.url, **_KEYS)
    service = _service(ecs, "steady", "repository:1", rollback=True)

    assert service["runningCount"] == service["desiredCount"] == 2
    assert _deployment(ecs, "steady")["status"] == "SUCCESSFUL"


def test_a_broken_image_is_rolled_back_to_what_ran_before(gateway: Gateway) -> None:
    ecs = boto3.client("ecs", endpoint_url=gateway.url, **_KEYS)
    before = _service(ecs, "rolling", "repository:1", rollback=True)["taskDefinition"]
    broken = _register(ecs, "rolling", f"repository:{BROKEN}")
    ecs.update_service(cluster="cluster", service="rolling", taskDefinition=broken)

    assert [_deployment(ecs, "rolling")["status"] for _ in range(3)] == [
        "IN_PROGRESS",
        "ROLLBACK_IN_PROGRESS",
        "ROLLBACK_SUCCESSFUL",
    ]
    [service] = ecs.describe_services(cluster="cluster", services=["rolling"])["services"]
    assert (service["taskDefinition"], service["runningCount"]) == (before, 2)


@pytest.mark.parametrize(
    ("rollback", "status"), [(True, "ROLLBACK_FAILED"), (False, "IN_PROGRESS")]
)
def test_a_broken_image_of_a_new_service_runs_nothing(
    gateway: Gateway, rollback: bool, status: str
) -> None:
    ecs = boto3.client("ecs", endpoint_url=gateway.url, **_KEYS)
    name = f"new-{rollback}"
    _service(ecs, name, f"repository:{BROKEN}", rollback=rollback)

    assert [_deployment(ecs, name)["status"] for _ in range(3)][-1] == status
    [service] = ecs.describe_services(cluster="cluster", services=[name])["services"]
    assert service["runningCount"] == 0


def test_a_broken_sidecar_breaks_the_task_only_if_its_container_waits_for_it(
    gateway: Gateway,
) -> None:
    ecs = boto3.client("ecs", endpoint_url=gateway.url, **_KEYS)
    sidecar = {
        "name": "b",
        "image": f"repository:{BROKEN}",
        "memory": 128,
        "essential": False,
    }
    _service(ecs, "alone", "repository:1", sidecar, rollback=True)
    _service(ecs, "awaited", "repository:1", sidecar, rollback=True, awaited="b")

    assert _deployment(ecs, "alone")["status"] == "SUCCESSFUL"
    assert _deployment(ecs, "awaited")["status"] == "IN_PROGRESS"


def test_a_deleted_record_can_be_created_again_and_an_existing_one_cannot(
    moto: EmulatorServer,
) -> None:
    with Gateway(moto.url, [DnsRecords()]) as gateway:
        dns = boto3.client("route53", endpoint_url=gateway.url, **_KEYS)
        zone = dns.create_hosted_zone(Name="example.org", CallerReference="x")["HostedZone"]["Id"]

        def change(action: str, name: str) -> None:
            record = {"Name": name, "Type": "A", "TTL": 60, "ResourceRecords": [{"Value": "::1"}]}
            batch = {"Changes": [{"Action": action, "ResourceRecordSet": record}]}
            dns.change_resource_record_sets(HostedZoneId=zone, ChangeBatch=batch)

        change("CREATE", "one.example.org")
        change("DELETE", "one.example.org")
        change("CREATE", "a.one.example.org")  # listed after it, as the record of a certificate is
        change("CREATE", "one.example.org")

        with pytest.raises(dns.exceptions.InvalidChangeBatch, match="already exists"):
            change("CREATE", "one.example.org")
        listed = dns.list_resource_record_sets(HostedZoneId=zone)["ResourceRecordSets"]
        named = [each["Name"] for each in listed if each["Type"] == "A"]
        assert named == ["one.example.org.", "a.one.example.org."]


def test_a_workspace_has_the_alert_manager_that_it_was_given_until_it_is_deleted(
    moto: EmulatorServer,
) -> None:
    with Gateway(moto.url, [AlertManagers()]) as gateway:
        amp = boto3.client("amp", endpoint_url=gateway.url, **_KEYS)
        of = {"workspaceId": amp.create_workspace(alias="sulina")["workspaceId"]}
        amp.create_alert_manager_definition(data=b"one", **of)
        amp.put_alert_manager_definition(data=b"two", **of)

        seen = amp.describe_alert_manager_definition(**of)["alertManagerDefinition"]
        assert (seen["data"], seen["status"]["statusCode"]) == (b"two", "ACTIVE")
        amp.delete_alert_manager_definition(**of)
        with pytest.raises(amp.exceptions.ResourceNotFoundException):
            amp.describe_alert_manager_definition(**of)


def test_what_emulators_refuse_is_passed_on() -> None:
    headers = {
        "X-Amz-Target": "AmazonEC2ContainerServiceV20141113.CreateService",
        "Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/ecs/aws4_request, x",
    }
    call = Call("POST", "/", headers, b"{}")
    assert call.service == "ecs"
    refused = Answer(400, {}, b'{"__type": "ClusterNotFoundException"}')

    assert EcsDeployments().after(call, refused) is refused


def _register(ecs: Any, name: str, image: str, *more: dict[str, Any], awaited: str = "") -> str:
    container: dict[str, Any] = {"name": "a", "image": image, "memory": 128}
    if awaited:
        container["dependsOn"] = [{"containerName": awaited, "condition": "SUCCESS"}]
    made = ecs.register_task_definition(family=name, containerDefinitions=[container, *more])
    return str(made["taskDefinition"]["taskDefinitionArn"])


def _service(
    ecs: Any,
    name: str,
    image: str,
    *more: dict[str, Any],
    rollback: bool,
    awaited: str = "",
) -> dict[str, Any]:
    ecs.create_cluster(clusterName="cluster")
    _register(ecs, name, image, *more, awaited=awaited)
    ecs.create_service(
        cluster="cluster",
        serviceName=name,
        taskDefinition=name,
        desiredCount=2,
        deploymentConfiguration={
            "deploymentCircuitBreaker": {"enable": rollback, "rollback": rollback}
        },
    )
    found: dict[str, Any] = ecs.describe_services(cluster="cluster", services=[name])["services"][0]
    return json.loads(json.dumps(found, default=str))  # type: ignore[no-any-return]


def _deployment(ecs: Any, name: str) -> dict[str, Any]:
    [brief] = ecs.list_service_deployments(cluster="cluster", service=name)["serviceDeployments"]
    arn = brief["serviceDeploymentArn"]
    [found] = ecs.describe_service_deployments(serviceDeploymentArns=[arn])["serviceDeployments"]
    return dict(found)
