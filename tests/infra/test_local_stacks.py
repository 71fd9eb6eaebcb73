"""A stack for an emulated AWS cannot reach the real one."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from infra.config.emulated import check_emulated
from infra.errors import DeploymentError
from localstack.deployment.stack_files import ROOT, stack_values
from tests.infra.graph import Graph

_LOCAL = sorted(
    path.name.split(".")[1]
    for path in ROOT.glob("Pulumi.*.yaml")
    if "aws:endpoints" in path.read_text()
)
_LOOKED_UP = {"ec2", "sts"}
"""The services that the program asks for its region, account and zones."""
_SERVICES = {
    "cloudwatch/eventRule": "events",
    "cloudwatch/eventTarget": "events",
    "cloudwatch/logGroup": "logs",
    "cloudwatch/logMetricFilter": "logs",
    "ebs": "ec2",
    "lb": "elbv2",
    "vpc": "ec2",
}
"""The name of an endpoint by type of resource, where it is not the type's module."""


@pytest.mark.parametrize("stack", _LOCAL)
def test_each_service_that_a_local_stack_uses_has_an_endpoint(
    stack: str, graph_of: Callable[[str], Graph]
) -> None:
    used = set(_LOOKED_UP)
    for made in graph_of(stack).resources:
        package, kind = made.kind.split(":")[:2]
        if package == "aws":
            module = kind.partition("/")[0]
            used.add(_SERVICES.get(kind) or _SERVICES.get(module, module))
    if "s3" in used:  # the provider reads the tags of buckets there
        used.add("s3control")
    endpoints = json.loads(stack_values(stack)["aws:endpoints"])
    assert used <= endpoints[0].keys()


@pytest.mark.parametrize("stack", _LOCAL)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("aws:httpProxy", "http://127.0.0.1:4566"),
        ("aws:httpsProxy", "http://127.0.0.1:4566"),
        ("aws:noProxy", "127.0.0.1"),
        ("aws:skipCredentialsValidation", "true"),
        ("aws:skipMetadataApiCheck", "true"),
    ],
)
def test_a_local_stack_is_refused_without_what_keeps_it_from_aws(
    stack: str, name: str, value: str
) -> None:
    values = stack_values(stack)
    check_emulated(values)
    del values[name]
    with pytest.raises(DeploymentError, match=f"`pulumi config set {name} {value}`"):
        check_emulated(values)


def test_a_proxy_on_another_machine_is_refused() -> None:
    values = {**stack_values("localstack"), "aws:httpsProxy": "http://proxy.example.com:3128"}
    with pytest.raises(DeploymentError, match="without aws:httpsProxy this stack could reach"):
        check_emulated(values)


def test_endpoints_here_and_elsewhere_are_refused() -> None:
    endpoints = [{"s3": "http://127.0.0.1:4566", "kms": "https://kms.example.com"}]
    values = {**stack_values("localstack"), "aws:endpoints": json.dumps(endpoints)}
    with pytest.raises(DeploymentError, match=r"and also https://kms\.example\.com"):
        check_emulated(values)


def test_other_stacks_need_none_of_it() -> None:
    check_emulated(stack_values("prod"))
    check_emulated({"aws:endpoints": json.dumps([{"s3": "https://bucket.vpce.example.com"}])})
