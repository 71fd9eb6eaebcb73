"""Replaces AWS if only the graph matters: every resource gets a plausible id and ARN."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Inputs = Mapping[str, Any]
ACCOUNT = "123456789012"
REGION = "eu-central-1"
NETWORK = "10.42.0.0/16"
"""That of the VPC, if the stack was deployed before."""

ANSWERS: dict[str, dict[str, Any]] = {
    "aws:index/getRegion:getRegion": {"region": REGION},
    "aws:index/getPartition:getPartition": {"partition": "aws"},
    "aws:index/getCallerIdentity:getCallerIdentity": {"accountId": ACCOUNT},
    "aws:index/getAvailabilityZones:getAvailabilityZones": {
        "names": [f"{REGION}{letter}" for letter in "abc"]
    },
    "aws:ssm/getParameter:getParameter": {"value": "ami-0123456789abcdef0"},
    "aws:secretsmanager/getRandomPassword:getRandomPassword": {"randomPassword": "x" * 48},
    "aws:ecr/getAuthorizationToken:getAuthorizationToken": {
        "userName": "AWS",
        "password": "login-of-who-deploys",
    },
}
"""The results of the provider functions that the program calls."""


def _arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


_ARNS: dict[str, Callable[[str, Inputs], str]] = {
    "aws:iam/role:Role": lambda name, given: f"arn:aws:iam::{ACCOUNT}:role/{given['name']}",
    "aws:iam/policy:Policy": lambda name, given: f"arn:aws:iam::{ACCOUNT}:policy/{given['name']}",
    "aws:ecs/cluster:Cluster": lambda name, given: _arn("ecs", f"cluster/{given['name']}"),
    "aws:ecr/repository:Repository": lambda name, given: _arn("ecr", f"repository/{given['name']}"),
    "aws:kms/key:Key": lambda name, given: _arn("kms", f"key/{name}"),
    "aws:secretsmanager/secret:Secret": lambda name, given: _arn(
        "secretsmanager", f"secret:{given['name']}-AbCdEf"
    ),
    "aws:emrserverless/application:Application": lambda name, given: _arn(
        "emr-serverless", f"/applications/{name}"
    ),
    "aws:lambda/function:Function": lambda name, given: _arn("lambda", f"function:{given['name']}"),
    "aws:sqs/queue:Queue": lambda name, given: _arn("sqs", given["name"]),
    "aws:sns/topic:Topic": lambda name, given: _arn("sns", given["name"]),
}


class RecordingMaker:
    """Creates nothing, but answers like AWS.

    With ``running``, the stack was deployed before, and the machines with these addresses run;
    ``behind`` are services that ECS has rolled back.
    """

    def __init__(self, running: Sequence[str], behind: Sequence[str] = ()) -> None:
        self._running = running
        self._behind = behind

    def call(self, token: str, arguments: Inputs) -> dict[str, Any]:
        """The result of a provider function."""
        if token == "aws:ec2/getInstances:getInstances":
            return {"privateIps": self._running}
        if token == "aws:ec2/getVpcs:getVpcs":
            wanted = [each["values"] for each in arguments.get("filters", ())]
            return {"ids": ["vpc-1"] if self._running and wanted in ([], [[NETWORK]]) else []}
        if token == "aws:ecs/getService:getService":
            name = arguments["serviceName"].rpartition("-")[2]
            return {"taskDefinition": _arn("ecs", f"{name}:1" if name in self._behind else name)}
        return ANSWERS[token]

    def make(self, kind: str, name: str, given: Inputs) -> tuple[str, dict[str, Any]]:
        """A resource's id and the properties that AWS would add."""
        if kind in _ARNS:
            arn = _ARNS[kind](name, given)
        else:
            arn = _arn(kind.split("/")[0].removeprefix("aws:"), name)
        return f"{name}-id", {"arn": arn, **_more(kind, name, given)}


def _more(kind: str, name: str, given: Inputs) -> dict[str, Any]:
    if kind == "aws:ecr/repository:Repository":
        registry = f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com"
        return {"repositoryUrl": f"{registry}/{given['name']}"}
    if kind == "aws:acm/certificate:Certificate":
        option = {
            "resourceRecordName": "_1.example.com",
            "resourceRecordType": "CNAME",
            "resourceRecordValue": "_2.acm-validations.aws",
        }
        return {"domainValidationOptions": [option]}
    return _MORE.get(kind, {})


_MORE: dict[str, dict[str, Any]] = {
    "aws:kms/key:Key": {"keyId": "key-id"},
    "aws:secretsmanager/secretVersion:SecretVersion": {"versionId": "version-1"},
    "aws:ec2/vpcEndpoint:VpcEndpoint": {"prefixListId": "pl-s3"},
    "aws:ec2/instance:Instance": {"primaryNetworkInterfaceId": "eni-1"},
    "aws:servicediscovery/privateDnsNamespace:PrivateDnsNamespace": {"hostedZone": "ZPRIVATE"},
    "aws:lb/loadBalancer:LoadBalancer": {
        "dnsName": "sulina.elb.example.com",
        "zoneId": "ZLB",
        "arnSuffix": "net/sulina/1",
    },
    "aws:lb/targetGroup:TargetGroup": {"arnSuffix": "targetgroup/binary/1"},
    "aws:ec2/vpcEndpointService:VpcEndpointService": {
        "serviceName": "com.amazonaws.vpce.eu-central-1.vpce-svc-1",
        "privateDnsNameConfigurations": [{"name": "_proof", "type": "TXT", "value": "vpce:1"}],
    },
    "aws:lambda/functionUrl:FunctionUrl": {"functionUrl": "https://discovery.example.com/"},
    "aws:route53/record:Record": {"fqdn": "proof.example.com"},
    "aws:sqs/queue:Queue": {"url": "https://sqs.example.com/failed"},
}
