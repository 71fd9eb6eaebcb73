"""Settings: what is taken, and the sentences for what is not."""

from __future__ import annotations

import pytest

from infra.config.settings import StackSettings
from infra.errors import DeploymentError
from localstack.deployment.stack_files import stack_values


def parse(**given: str) -> StackSettings:
    return StackSettings.parse("test", given)


def test_without_any_value_there_is_a_cluster_over_three_zones() -> None:
    settings = parse()
    assert (settings.brokers.minimum, settings.etcd.count, settings.storage.count) == (3, 3, 3)
    assert settings.prefix == "sulina-test"
    assert settings.protect
    assert not settings.endpoint.public


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"brokerMin": "many"}, "sulina:brokerMin is 'many' but must be a whole number"),
        ({"brokerMin": "5", "brokerMax": "4"}, "must not be less than brokerMin, which is 5"),
        ({"brokerCpu": "1000"}, "must be one of 256, 512, 1024"),
        ({"brokerCpu": "256", "brokerMemory": "8192"}, "from 512 to 2,048 with brokerCpu 256"),
        ({"brokerLoad": "60"}, "must be a number between 0 and 1"),
        ({"etcdCount": "2"}, "must be odd"),
        ({"architecture": "risc"}, "must be one of arm64, x86_64"),
        ({"architecture": "x86_64"}, "sulina:etcdInstance is not set but must be an instance type"),
        ({"storageInstance": "m7i.large"}, "must be an instance type of sulina:architecture arm64"),
        ({"network": "10.0.0.0/8"}, "must be a private /16 network"),
        ({"network": "8.8.0.0/16"}, "must be a private /16 network"),
        ({"public": "yes"}, "must be true or false"),
        ({"public": "true"}, "sulina:public needs a certificate"),
        ({"requireTls": "true"}, "sulina:requireTls needs a certificate"),
        ({"domain": "sulina.example.com"}, "is required with a domain"),
        ({"zoneId": "Z1"}, "must be the domain name of the certificate"),
        ({"allowed": "everybody"}, "must be a comma-separated list of IPv4 networks"),
        ({"logDays": "8"}, "must be one of 1, 3, 5, 7"),
        ({"scheduleAudit": "nightly"}, "must be a schedule such as rate(1 hour)"),
        ({"alarmEmail": "me"}, "must be an e-mail address"),
        ({"upTo": "moon"}, "must be one of lake, catalog, cluster"),
        ({"images": "pushed"}, "must be the tag of images that have been pushed"),
        ({"images": "build", "imageTag": "1"}, "must be pushed when imageTag is set"),
        ({"internalAuthorities": "1,1"}, "one or more distinct names"),
        ({"internalAuthorities": ","}, "must be one or more distinct names"),
        ({"brokermin": "3"}, "sulina:brokermin is not a known setting"),
    ],
)
def test_a_wrong_value_is_told_with_the_remedy(given: dict[str, str], said: str) -> None:
    with pytest.raises(DeploymentError) as raised:
        parse(**given)
    assert said in str(raised.value)
    assert "pulumi config" in str(raised.value)


def test_networks_are_written_as_aws_writes_them_each_once() -> None:
    given = "203.0.113.7, 10.0.0.0/255.0.0.0,10.0.0.0/8"
    assert parse(allowed=given).endpoint.allowed == ("203.0.113.7/32", "10.0.0.0/8")


@pytest.mark.parametrize("allowed", ["", "0.0.0.0/0", "0.0.0.0/1,128.0.0.0/1"])
def test_a_public_endpoint_is_never_open_to_the_whole_world(allowed: str) -> None:
    with pytest.raises(DeploymentError, match="must list the networks that may connect"):
        parse(public="true", domain="a.example.com", zoneId="Z1", allowed=allowed)


@pytest.mark.parametrize("stack", ["My_Stack", "1st", "team-", "a--b", "a" * 19])
def test_a_stack_whose_name_can_not_be_part_of_others_is_refused(stack: str) -> None:
    with pytest.raises(DeploymentError, match="choose up to 18 lowercase letters"):
        StackSettings.parse(stack, {})


@pytest.mark.parametrize("stack", ["dev", "localstack"])
def test_the_stack_files_are_right_as_they_are(stack: str) -> None:
    StackSettings.parse(stack, _values(stack))


def test_the_file_of_prod_asks_for_a_name_and_nothing_else() -> None:
    values = _values("prod")
    with pytest.raises(DeploymentError, match="needs a certificate"):
        StackSettings.parse("prod", values)
    assert StackSettings.parse(
        "prod", {**values, "domain": "a.example.com", "zoneId": "Z1"}
    ).protect


def _values(stack: str) -> dict[str, str]:
    found = stack_values(stack).items()
    return {n.removeprefix("sulina:"): value for n, value in found if n.startswith("sulina:")}
