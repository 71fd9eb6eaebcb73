"""Creates resources in an emulated AWS, with one function per type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localstack.deployment import (
    analytics,
    compute,
    functions,
    network,
    observability,
    storage,
)
from localstack.deployment.account import MAKERS, EmulatedAccount
from localstack.deployment.inputs import ResourceInputs
from localstack.emulators.credentials import Credentials

PARTS = (functions, compute, storage, network, analytics, observability)
"""Importing them registers their functions."""


class EmulatedMaker:
    """Creates resources in an emulated AWS, and answers provider functions from there.

    ``elsewhere`` has the URLs of services that are not at ``url``, by boto3's name.
    """

    def __init__(
        self,
        url: str,
        region: str,
        elsewhere: Mapping[str, str] | None = None,
        credentials: Credentials | None = None,
    ) -> None:
        self.account = EmulatedAccount(url, region, elsewhere or {}, credentials)

    def call(self, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question of the program. Raises ``KeyError`` for unknown ones."""
        client = self.account.client
        match token.rpartition(":")[2]:
            case "getRegion":
                return {"region": self.account.region}
            case "getPartition":
                return {"partition": "aws"}
            case "getCallerIdentity":
                return {"accountId": client("sts").get_caller_identity()["Account"]}
            case "getAvailabilityZones":
                found = client("ec2").describe_availability_zones()
                return {"names": [zone["ZoneName"] for zone in found["AvailabilityZones"]]}
            case "getInstances":
                filters = _filters({"tags": arguments["instanceTags"]})
                found = client("ec2").describe_instances(Filters=filters)["Reservations"]
                machines = [machine for each in found for machine in each["Instances"]]
                return {"privateIps": [machine["PrivateIpAddress"] for machine in machines]}
            case "getVpcs":
                found = client("ec2").describe_vpcs(Filters=_filters(arguments))["Vpcs"]
                return {"ids": [each["VpcId"] for each in found]}
            case "getService":
                [found] = client("ecs").describe_services(
                    cluster=arguments["clusterArn"], services=[arguments["serviceName"]]
                )["services"]
                return {"taskDefinition": found["taskDefinition"]}
            case "getParameter":
                image = client("ec2").describe_images(Owners=["amazon"])["Images"][0]
                return {"value": image["ImageId"]}
            case "getRandomPassword":
                found = client("secretsmanager").get_random_password(
                    PasswordLength=int(arguments["passwordLength"]),
                    ExcludePunctuation=arguments["excludePunctuation"],
                )
                return {"randomPassword": found["RandomPassword"]}
            case "getAuthorizationToken":
                return {"userName": "AWS", "password": "not used: images are not built"}
        raise KeyError(f"{token} has no answer in an emulated account")

    def make(self, kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """A resource's id, and what AWS knows of it beyond its inputs."""
        inputs = ResourceInputs(given)
        made = MAKERS[kind](self.account, inputs)
        inputs.end()
        return made

    def finish(self) -> None:
        """Do what had to wait until everything else was created."""
        self.account.finish()


def _filters(arguments: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The filters of a question for resources; tags may contain wildcards."""
    tags = arguments["tags"].items()
    more = [
        {"Name": each["name"], "Values": each["values"]} for each in arguments.get("filters", ())
    ]
    return [*({"Name": f"tag:{name}", "Values": [value]} for name, value in tags), *more]
