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

ROOT_GIB = 30
"""The size of root disks: that of the machine image, which is the least possible."""


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


class DeletionGuard(pulumi.ComponentResource):
    """Depends on everything below the root, and so is the first to be deleted.

    If the stack is protected, it cannot be: ``pulumi destroy`` then ends before it has deleted
    anything, also without a preview. Create it last.
    """

    def __init__(self, root: Deployment) -> None:
        options = pulumi.ResourceOptions(depends_on=[root], protect=root.settings.protect)
        super().__init__("sulina:infra:DeletionGuard", "deletion-guard", None, options)


class Component(pulumi.ComponentResource):
    """One part of the deployment; the resources that it creates are its children."""

    def __init__(self, name: str, parent: Deployment | Component) -> None:
        super().__init__(f"sulina:infra:{name}", name, None, pulumi.ResourceOptions(parent=parent))
        self.settings: StackSettings = parent.settings
        self.region: Region = parent.region

    def named(self, name: str) -> str:
        """The name of a resource in AWS: the stack's prefix, then ``name``."""
        return f"{self.settings.prefix}-{name}"

    def root_disk(self, name: str, key: pulumi.Input[str]) -> dict[str, Any]:
        """The root disk of a machine, encrypted with ``key``, and tagged like the machine."""
        return {
            "volume_type": "gp3",
            "volume_size": ROOT_GIB,
            "encrypted": True,
            "kms_key_id": key,
            "tags": tags_of(self.settings, self.named(name)),
        }

    def within(self, **more: Any) -> pulumi.ResourceOptions:
        """Resource options that make a resource a child of this component."""
        return pulumi.ResourceOptions(parent=self, **more)


def tagging(settings: StackSettings) -> pulumi.ResourceTransformation:
    """Adds tags to every resource that supports them; a resource's own tags take precedence."""

    def transform(
        args: pulumi.ResourceTransformationArgs,
    ) -> pulumi.ResourceTransformationResult | None:
        if not takes_tags(type(args.resource)):
            return None
        own = cast("Mapping[str, Any]", args.props.get("tags") or {})
        props = {**args.props, "tags": {**tags_of(settings, args.name), **own}}
        return pulumi.ResourceTransformationResult(props, args.opts)

    return transform


def tags_of(settings: StackSettings, name: str) -> dict[str, str]:
    """The tags of a resource; they tell whose it is, and permissions depend on them."""
    return {
        "Project": "sulina",
        "Stack": settings.stack,
        "Owner": settings.owner,
        "ManagedBy": "pulumi",
        "Name": name,
    }


def takes_tags(resource: type[pulumi.Resource]) -> bool:
    """Whether a class of resources has AWS tags among its inputs."""
    init = getattr(resource, "_internal_init", None)
    # In other providers `tags` means something else: an image's tags are its names.
    if init is None or not resource.__module__.startswith("pulumi_aws."):
        return False
    return "tags" in inspect.signature(init).parameters
