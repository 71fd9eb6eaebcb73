"""The base of every component: settings, region, resource names and tags.

The root component, ``Deployment``, adds tags to every resource below it that supports them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pulumi

from infra.config.settings import StackSettings


@dataclass(frozen=True, slots=True)
class Region:
    """The AWS account, region and availability zones to deploy to."""

    account: str
    name: str
    partition: str
    zones: tuple[str, ...]

    def arn(self, service: str, resource: str) -> str:
        """The ARN of a resource in this account and region."""
        return f"arn:{self.partition}:{service}:{self.name}:{self.account}:{resource}"

    def bucket_arn(self, name: str) -> str:
        """The ARN of a bucket, which contains neither region nor account."""
        return f"arn:{self.partition}:s3:::{name}"


class Deployment(pulumi.ComponentResource):
    """The root of the resource tree."""

    def __init__(self, settings: StackSettings, region: Region) -> None:
        options = pulumi.ResourceOptions(transformations=[tagging(settings)])
        super().__init__("sulina:infra:Deployment", settings.prefix, None, options)
        self.settings = settings
        self.region = region


class Component(pulumi.ComponentResource):
    """One part of the deployment; the resources that it creates are its children."""

    def __init__(self, name: str, parent: Deployment | Component) -> None:
        super().__init__(f"sulina:infra:{name}", name, None, pulumi.ResourceOptions(parent=parent))
        self.settings: StackSettings = parent.settings
        self.region: Region = parent.region

    def named(self, name: str) -> str:
        """The name of a resource in AWS: the stack's prefix, then ``name``."""
        return f"{self.settings.prefix}-{name}"

    def within(self, **more: Any) -> pulumi.ResourceOptions:
        """Resource options that make a resource a child of this component."""
        return pulumi.ResourceOptions(parent=self, **more)


def tagging(settings: StackSettings) -> pulumi.ResourceTransformation:
    """Adds tags to every resource that supports them; a resource's own tags take precedence."""
    tags = {
        "Project": "sulina",
        "Stack": settings.stack,
        "Owner": settings.owner,
        "ManagedBy": "pulumi",
    }

    def transform(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        if not takes_tags(type(args.resource)):
            return None
        own = cast("Mapping[str, Any]", args.props.get("tags") or {})
        props = {**args.props, "tags": {**tags, "Name": args.name, **own}}
        return pulumi.ResourceTransformationResult(props, args.opts)

    return transform


def takes_tags(resource: type[pulumi.Resource]) -> bool:
    """Whether a class of resources has AWS tags among its inputs."""
    init = getattr(resource, "_internal_init", None)
    # In other providers `tags` means something else: an image's tags are its names.
    if init is None or not resource.__module__.startswith("pulumi_aws."):
        return False
    return "tags" in inspect.signature(init).parameters
