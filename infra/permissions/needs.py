"""How the tables of this folder say what deploying a type of resource needs.

There are four forms. ``named`` restricts actions to resources whose names begin with the stack's
prefix; ``new`` to requests that tag what they create as Sulina's; ``ours`` to resources with that
tag; ``anything`` is for actions that AWS cannot restrict, most of which only read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_TAG: Final = "Project"
_VALUE: Final = "sulina"
REQUEST_TAG: Final = {"StringEquals": {f"aws:RequestTag/{_TAG}": _VALUE}}
RESOURCE_TAG: Final = {"StringEquals": {f"aws:ResourceTag/{_TAG}": _VALUE}}
UNTAGGED: Final = {"Null": {f"aws:ResourceTag/{_TAG}": "true"}}
_GLOBAL: Final = ("s3", "iam", "route53")
"""Services whose resources have no region in their ARN."""

Conditions = Mapping[str, Mapping[str, str | list[str]]]


@dataclass(frozen=True, slots=True)
class Need:
    """Actions on resources, under conditions."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    when: Conditions


Needs = Mapping[str, tuple[Need, ...]]
"""By Pulumi type: what creating, reading, changing and deleting it needs."""


def named(service: str, actions: str, *resources: str, when: Conditions | None = None) -> Need:
    """Actions, separated by spaces, on resources such as ``cluster/{prefix}-*``."""
    found = tuple(_arn(service, each) for each in resources)
    return Need(tuple(f"{service}:{each}" for each in actions.split()), found, when or {})


def new(service: str, actions: str, *resources: str) -> Need:
    """Actions that create resources and tag them; without resources, any."""
    need = named(service, actions, *resources, when=REQUEST_TAG)
    return need if resources else Need(need.actions, ("*",), need.when)


def ours(service: str, actions: str, *resources: str) -> Need:
    """Actions on resources that are tagged."""
    return named(service, actions, *resources, when=RESOURCE_TAG)


def anything(service: str, actions: str, when: Conditions | None = None) -> Need:
    """Actions that AWS cannot restrict to a resource."""
    return Need(tuple(f"{service}:{each}" for each in actions.split()), ("*",), when or {})


def through(services: str, actions: str) -> Need:
    """Actions on our keys, only through AWS services that encrypt with them."""
    through = [f"{each}.*.amazonaws.com" for each in services.split()]
    return named(
        "kms", actions, "key/*", when={**RESOURCE_TAG, "StringLike": {"kms:ViaService": through}}
    )


def linked_role(service: str) -> Need:
    """Let AWS create the role with which a service works in this account, if it does not exist."""
    return named(
        "iam",
        "CreateServiceLinkedRole",
        "role/aws-service-role/*",
        when={"StringEquals": {"iam:AWSServiceName": service}},
    )


def pass_role(service: str) -> Need:
    """Let a service use our roles."""
    return named(
        "iam",
        "PassRole",
        "role/{prefix}-*",
        when={"StringEquals": {"iam:PassedToService": service}},
    )


def _arn(service: str, resource: str) -> str:
    if resource.startswith("arn:"):
        return resource
    if service in _GLOBAL:
        account = "{account}" if service == "iam" else ""
        return f"arn:aws:{service}::{account}:{resource}"
    return f"arn:aws:{service}:{{region}}:{{account}}:{resource}"
