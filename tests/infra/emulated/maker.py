"""Creates resources in an emulated AWS, with one function per type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.emulated import (
    analytics,
    compute,
    functions,
    network,
    observability,
    storage,
)
from tests.infra.emulated.account import MAKERS, EmulatedAccount
from tests.infra.emulated.inputs import ResourceInputs
from tests.infra.emulated.inspection import look
from tests.infra.recorder import ANSWERS

PARTS = (functions, compute, storage, network, analytics, observability)
"""Importing them registers their functions."""


class EmulatedMaker:
    """Creates resources in an emulated AWS, and answers provider functions from there."""

    def __init__(self, url: str, region: str) -> None:
        self._account = EmulatedAccount(url, region)

    def call(self, token: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question of the program."""
        if token.endswith("getRegion"):
            return {"region": self._account.region}
        if token.endswith("getCallerIdentity"):
            return {"accountId": self._account.client("sts").get_caller_identity()["Account"]}
        if token.endswith("getAvailabilityZones"):
            found = self._account.client("ec2").describe_availability_zones()
            return {"names": [zone["ZoneName"] for zone in found["AvailabilityZones"]]}
        if token.endswith("getParameter"):
            image = self._account.client("ec2").describe_images(Owners=["amazon"])["Images"][0]
            return {"value": image["ImageId"]}
        return ANSWERS[token]

    def make(self, kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """A resource's id, and what AWS knows of it beyond its inputs."""
        inputs = ResourceInputs(given)
        made = MAKERS[kind](self._account, inputs)
        inputs.end()
        return made

    def look(self) -> dict[str, Any]:
        """What boto3 sees of the account when everything is made."""
        self._account.finish()
        return look(self._account)
