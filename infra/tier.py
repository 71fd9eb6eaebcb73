"""What every tier has in common: a name, a place in the tree of resources, and tags.

A tier is one ``ComponentResource``. The first of them, the deployment, hands tags down to all
below it that can have tags, so that no resource is forgotten.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import pulumi

from infra.config import Settings


@dataclass(frozen=True, slots=True)
class Place:
    """Where a deployment is."""

    account: str
    region: str
    partition: str
    zones: tuple[str, ...]

    def arn(self, service: str, resource: str) -> str:
        """The ARN of something in this account and region."""
        return f"arn:{self.partition}:{service}:{self.region}:{self.account}:{resource}"

    def bucket_arn(self, name: str) -> str:
        """The ARN of a bucket: it has neither region nor account."""
        return f"arn:{self.partition}:s3:::{name}"


class Tier(pulumi.ComponentResource):
    """A part of the picture; its resources are its children."""

    def __init__(
        self, kind: str, settings: Settings, place: Place, parent: pulumi.Resource | None = None
    ) -> None:
        super().__init__(f"sulina:infra:{kind}", kind, None, pulumi.ResourceOptions(parent=parent))
        self.settings = settings
        self.place = place

    def named(self, name: str) -> str:
        """The name by which people find a resource: the stack's prefix and its own."""
        return f"{self.settings.prefix}-{name}"

    def within(self, **more: Any) -> pulumi.ResourceOptions:
        """Options of a child."""
        return pulumi.ResourceOptions(parent=self, **more)


class Deployment(pulumi.ComponentResource):
    """The root of the tree."""

    def __init__(self, settings: Settings) -> None:
        options = pulumi.ResourceOptions(transformations=[tagging(settings)])
        super().__init__("sulina:infra:Deployment", settings.prefix, None, options)


def tagging(settings: Settings) -> pulumi.ResourceTransformation:
    """Gives tags to every resource that takes them; those of the resource itself win."""
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


def takes_tags(kind: type[pulumi.Resource]) -> bool:
    """Whether a class of resources has tags among its inputs."""
    make = getattr(kind, "_internal_init", None)
    # Other providers' tags are something else: those of an image are its names.
    if make is None or not kind.__module__.startswith("pulumi_aws."):
        return False
    return "tags" in inspect.signature(make).parameters
