"""Settings: what is taken, and the sentences for what is not."""

from __future__ import annotations

import pytest

from infra.config import Settings
from infra.wrong import Wrong
from tests.infra.stack_files import stack_values


def parse(**given: str) -> Settings:
    return Settings.parse("test", given)


def test_without_any_value_there_is_a_cluster_over_three_zones() -> None:
    settings = parse()
    assert (settings.brokers.least, settings.etcd.count, settings.storage.count) == (3, 3, 3)
    assert settings.prefix == "sulina-test"
    assert settings.protect
    assert not settings.endpoint.public


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"brokerLeast": "many"}, "sulina:brokerLeast is 'many' and must be a whole number"),
        ({"brokerLeast": "5", "brokerMost": "4"}, "must not be below brokerLeast, which is 5"),
        ({"brokerCpu": "1000"}, "must be one of 256, 512, 1024"),
        ({"brokerCpu": "256", "brokerMemory": "8192"}, "from 512 to 2,048 with brokerCpu 256"),
        ({"brokerLoad": "60"}, "must be a number between 0 and 1"),
        ({"etcdCount": "2"}, "must be odd"),
        ({"architecture": "risc"}, "must be one of arm64, x86_64"),
        ({"architecture": "x86_64"}, "sulina:etcdInstance is not set and must be a type of x86_64"),
        ({"storageInstance": "m7i.large"}, "must be a type of arm64"),
        ({"network": "10.0.0.0/8"}, "must be a private block of 65,536 addresses"),
        ({"network": "8.8.0.0/16"}, "must be a private block of 65,536 addresses"),
        ({"public": "yes"}, "must be true or false"),
        ({"public": "true"}, "there is no certificate"),
        ({"requireTls": "true"}, "there is no certificate"),
        ({"domain": "sulina.example.com"}, "must be given for a domain"),
        ({"zoneId": "Z1"}, "must be the name that the certificate is for"),
        ({"allowed": "everybody"}, "must be blocks of IPv4 addresses"),
        ({"logDays": "8"}, "must be one of 1, 3, 5, 7"),
        ({"scheduleAudit": "nightly"}, "must be a schedule such as rate(1 hour)"),
        ({"alarmEmail": "me"}, "must be an e-mail address"),
        ({"upTo": "moon"}, "must be one of lake, catalogue, cluster"),
        ({"images": "pushed"}, "must be the tag under which the images were pushed"),
        ({"images": "build", "imageTag": "1"}, "must be pushed for an imageTag"),
        ({"insideAuthorities": "1,1"}, "no two alike"),
        ({"insideAuthorities": ","}, "must be one or more names"),
        ({"brokerleast": "3"}, "sulina:brokerleast is no setting of Sulina"),
    ],
)
def test_a_wrong_value_is_told_with_the_remedy(given: dict[str, str], said: str) -> None:
    with pytest.raises(Wrong) as raised:
        parse(**given)
    assert said in str(raised.value)
    assert "pulumi config" in str(raised.value)


@pytest.mark.parametrize("allowed", ["", "0.0.0.0/0", "0.0.0.0/1,128.0.0.0/1"])
def test_a_public_endpoint_is_never_open_to_the_whole_world(allowed: str) -> None:
    with pytest.raises(Wrong, match="must name the networks that may connect"):
        parse(public="true", domain="a.example.com", zoneId="Z1", allowed=allowed)


def test_a_stack_whose_name_can_not_be_part_of_others_is_refused() -> None:
    with pytest.raises(Wrong, match="choose up to 20 small letters"):
        Settings.parse("My_Stack", {})


@pytest.mark.parametrize("stack", ["dev", "localstack"])
def test_the_stack_files_are_right_as_they_are(stack: str) -> None:
    Settings.parse(stack, _values(stack))


def test_the_file_of_prod_asks_for_a_name_and_nothing_else() -> None:
    values = _values("prod")
    with pytest.raises(Wrong, match="there is no certificate"):
        Settings.parse("prod", values)
    assert Settings.parse("prod", {**values, "domain": "a.example.com", "zoneId": "Z1"}).protect


def _values(stack: str) -> dict[str, str]:
    found = stack_values(stack).items()
    return {n.removeprefix("sulina:"): value for n, value in found if n.startswith("sulina:")}
