"""The checks before a deployment: each failure is one sentence with its remedy."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest

from infra.config.settings import StackSettings
from infra.config.stack_file import example_settings
from infra.permissions.functions import FUNCTIONS, QUOTAS
from infra.preflight.access import AwsAccess
from infra.preflight.checks import preflight
from infra.preflight.docker import check_docker
from infra.preflight.finding import Finding
from infra.preflight.quotas import check_quotas, needs
from localstack.deployment.stack_files import ROOT, stack_values
from localstack.emulators.moto import running_moto
from tests.infra.graph import Graph

KEYS = {"aws:accessKey": "test", "aws:secretKey": "test"}
PLENTY = 10_000.0


@dataclass
class QuotaServer:
    """Service Quotas, of which moto knows only those of VPCs."""

    values: dict[str, float] = field(default_factory=dict)
    """By code; others are plenty."""
    error: str = ""
    asked: list[str] = field(default_factory=list)


@pytest.fixture(scope="module")
def moto(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of an emulated AWS."""
    with running_moto(tmp_path_factory.mktemp("moto")) as server:
        yield server.url


@pytest.fixture
def aws(moto: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The emulated AWS, in place of the real one."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    return moto


@pytest.fixture
def quotas(aws: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[QuotaServer]:
    """Service Quotas with values that the test sets."""
    state = QuotaServer()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.asked.append(asked["QuotaCode"])
            if state.error:
                status = 400
                answer: dict[str, Any] = {"__type": state.error, "message": "no"}
            else:
                value = state.values.get(asked["QuotaCode"], PLENTY)
                status, answer = 200, {"Quota": {"Value": value}}
            body = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/x-amz-json-1.1")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_SERVICE_QUOTAS", f"http://127.0.0.1:{server.server_port}")
    yield state
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_vpc_too_many_is_told_with_the_command_that_asks_for_more(aws: str) -> None:
    region = "eu-west-1"
    ec2 = _client("ec2", aws, region)
    for number in range(4):  # next to the default one
        ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")
    found = _quotas("localstack", region, upTo="lake")
    assert [each.text for each in found] == [
        "the quota 'VPCs per Region' is 5 in eu-west-1, but this stack needs 1 next to 5 in use: "
        "request more with `aws service-quotas request-service-quota-increase --region eu-west-1 "
        "--service-code vpc --quota-code L-F678F1CE --desired-value 6` or at "
        "https://console.aws.amazon.com/servicequotas/home/services/vpc/quotas/L-F678F1CE"
    ]
    assert found[0].stops


def test_what_the_stack_has_already_made_is_not_in_the_way(aws: str) -> None:
    region = "eu-west-2"
    ec2 = _client("ec2", aws, region)
    for number in range(4):
        ec2.create_vpc(
            CidrBlock=f"10.{number}.0.0/16",
            TagSpecifications=[
                {
                    "ResourceType": "vpc",
                    "Tags": [
                        {"Key": "Project", "Value": "sulina"},
                        {"Key": "Stack", "Value": "localstack" if number == 3 else "other"},
                    ],
                }
            ],
        )
    assert not _quotas("localstack", region, upTo="lake")


def test_too_few_processors_are_told_before_anything_is_made(quotas: QuotaServer) -> None:
    region = "eu-west-3"
    quotas.values = {"L-1216C47A": 5}  # what a new account has
    found = _quotas("dev", region)
    assert len(found) == 1
    assert found[0].stops
    # Three storage nodes, etcd and the NAT machine, of two processors each.
    assert "is 5 in eu-west-3, but this stack needs 10: request more with" in found[0].text
    assert "--quota-code L-1216C47A --desired-value 10`" in found[0].text


def test_machines_of_others_count_and_those_that_stopped_do_not(
    quotas: QuotaServer, aws: str
) -> None:
    region = "us-east-2"
    ec2 = _client("ec2", aws, region)
    image = ec2.describe_images(Owners=["amazon"])["Images"][0]["ImageId"]
    made = ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=2, MaxCount=2)
    ec2.stop_instances(InstanceIds=[made["Instances"][0]["InstanceId"]])
    quotas.values = {"L-1216C47A": 10}
    found = _quotas("dev", region)
    assert len(found) == 1
    assert "needs 10 next to " in found[0].text


def test_too_many_allowed_networks_are_told_before_rules_are_refused(
    quotas: QuotaServer,
) -> None:
    quotas.values = {"L-0EA8095F": 60}
    many = ",".join(f"10.{number}.0.0/16" for number in range(18))
    found = _quotas("dev", "eu-north-1", allowed=many)
    assert len(found) == 1
    assert found[0].stops
    assert "rules per security group' is 60 in eu-north-1, but this stack needs 72" in found[0].text


def test_what_only_growth_needs_is_a_warning(quotas: QuotaServer) -> None:
    quotas.values = {"L-D05C8A75": 16, "L-3032A538": 12}
    found = _quotas("prod", "eu-north-1")
    assert [each.stops for each in found] == [False, False]
    assert "but this stack can grow to 24: " in found[0].text
    assert "'Max concurrent vCPUs per account' is 16" in found[1].text


def test_every_quota_of_a_stack_is_asked_for(quotas: QuotaServer) -> None:
    for stack in ("dev", "prod"):
        quotas.asked.clear()
        assert not _quotas(stack, "eu-south-1")
        wanted = [need.code for need in needs(example_settings(stack), lambda _: 2)]
        assert quotas.asked == wanted
        assert len(wanted) >= 9


def test_quotas_that_cannot_be_read_are_a_warning(quotas: QuotaServer) -> None:
    quotas.error = "AccessDeniedException"
    found = _quotas("dev", "eu-central-1")
    assert [each.stops for each in found] == [False]
    assert found[0].text.startswith("the quotas were not checked (")
    assert "AccessDeniedException" in found[0].text
    assert "`pulumi config set sulina:checks false`" in found[0].text
    quotas.error = "NoSuchResourceException"  # neither the account's nor AWS's own
    assert not _quotas("dev", "eu-central-1")


def test_policies_allow_what_the_check_calls_and_nothing_else(quotas: QuotaServer) -> None:
    called: set[str] = set()

    class Recorded(AwsAccess):
        def client(self, service: str) -> Any:
            made = super().client(service)

            def note(model: Any, **_: Any) -> None:
                called.add(f"{model.service_model.signing_name}:{model.name}")

            made.meta.events.register("before-call", note)
            return made

    access = Recorded({**KEYS, "aws:region": "sa-east-1"})
    for quotas.error in ("", "NoSuchResourceException"):
        assert not list(check_quotas(access, example_settings("dev")))
    assert called == {action for need in FUNCTIONS[QUOTAS] for action in need.actions}


def test_without_credentials_or_region_the_first_sentence_says_so(
    aws: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("AWS_DEFAULT_REGION", raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    assert _access({}).startswith("no region is set: ")
    region = {"aws:region": "eu-central-1"}
    assert _access(region).startswith("there are no AWS credentials: sign in with ")
    said = _access({**region, "aws:profile": "mine"})
    assert "(The config profile (mine) could not be found)" in said


def test_a_region_that_does_not_answer_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    said = _access({**KEYS, "aws:region": "eu-central-1"})
    assert said.startswith("AWS cannot be asked in the region 'eu-central-1' (Could not connect")


def test_the_wrong_account_is_told(aws: str) -> None:
    given = {**KEYS, "aws:region": "eu-central-1"}
    assert not AwsAccess({**given, "aws:allowedAccountIds": '["123456789012"]'}).findings()
    assert _access({**given, "aws:allowedAccountIds": '["999999999999"]'}) == (
        "these credentials are for the account 123456789012, but aws:allowedAccountIds names "
        "999999999999: sign in to the right one"
    )


def test_docker_must_be_there_and_answer_to_build_images(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = example_settings("dev")
    monkeypatch.setenv("PATH", str(tmp_path))
    (missing,) = check_docker(settings, preview=False)
    assert missing.text.startswith("Docker is not installed, and builds the images: install it, or")
    assert missing.stops
    assert not check_docker(settings, preview=True)[0].stops
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 1\n")
    docker.chmod(0o755)
    (silent,) = check_docker(settings, preview=False)
    assert silent.text.startswith("Docker does not answer, and builds the images: start it, or")
    docker.write_text("#!/bin/sh\nexit 0\n")
    assert not check_docker(settings, preview=False)
    docker.unlink()
    assert not check_docker(example_settings("dev", {"imageTag": "1.2.3"}), preview=False)


def test_local_stacks_are_not_checked_and_checks_can_be_turned_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no Docker, which would be told
    local = stack_values("localstack")
    settings = example_settings("dev")
    assert not preflight(settings, local, preview=False)
    assert not preflight(example_settings("dev", {"checks": "false"}), {}, preview=False)


def test_a_stack_can_be_checked_from_the_command_line(
    quotas: QuotaServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docker = tmp_path / "docker"
    docker.write_text("#!/bin/sh\nexit 0\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "infra.preflight", *arguments]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    good = run("dev")
    assert (good.returncode, good.stdout) == (0, "dev can be deployed\n"), good.stderr
    quotas.values = {"L-1216C47A": 5}
    short = run("dev")
    assert short.returncode == 1
    assert short.stdout.startswith("stops: the quota 'Running On-Demand Standard ")
    undecided = run("prod")
    assert undecided.returncode == 1
    assert undecided.stdout.startswith("stops: sulina:domain is not set but ")
    assert run().returncode == 2


def test_a_deployment_stops_at_a_quota_and_goes_on_after_a_warning(
    graph_of: Callable[[str], Graph],
) -> None:
    # The account of this plan has five VPCs; moto does not know the quotas of other services.
    stopped = graph_of("short")
    assert stopped.error.startswith("the quota 'VPCs per Region' is 5 in eu-central-1, but this ")
    assert not stopped.resources


def test_a_role_that_is_assumed_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = example_settings("dev", {"imageTag": "1.2.3"})
    (found,) = preflight(settings, {"aws:assumeRoles": "[]"}, preview=False)
    assert not found.stops
    assert found.text.endswith("were not checked, because aws:assumeRole is set")


def test_the_page_says_how_many_processors_the_stacks_need() -> None:
    sizes = {"t4g.nano": 2, "t4g.micro": 2, "m7g.medium": 1, "m7g.large": 2}

    def processors(stack: str) -> float:
        wanted = needs(example_settings(stack), sizes.__getitem__)
        return next(need.needed for need in wanted if need.code == "L-1216C47A")

    page = (ROOT / "docs" / "deploy.md").read_text()
    assert f"`dev` needs {processors('dev')} and `prod` {processors('prod')}" in page


def _access(given: Mapping[str, str]) -> str:
    (found,) = AwsAccess(given).findings()
    assert found.stops
    return found.text


def _quotas(stack: str, region: str, **more: str) -> list[Finding]:
    settings: StackSettings = example_settings(stack, more)
    return list(check_quotas(AwsAccess({**KEYS, "aws:region": region}), settings))


def _client(service: str, url: str, region: str) -> Any:
    return boto3.client(
        service,
        endpoint_url=url,
        region_name=region,
        aws_access_key_id="test",
        aws_secret_access_key="test",
    )
