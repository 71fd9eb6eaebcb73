"""The image (AMI) of every machine: Amazon Linux with the ECS agent and Docker."""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.component import Component


def machine_image(component: Component) -> str:
    """The id of the configured image, or of the latest for the stack's architecture."""
    if component.settings.machine_image:
        return component.settings.machine_image
    arm = "/arm64" if component.settings.architecture == "arm64" else ""
    name = f"/aws/service/ecs/optimized-ami/amazon-linux-2023{arm}/recommended"
    options = pulumi.InvokeOptions(parent=component)
    return str(aws.ssm.get_parameter(name=f"{name}/image_id", opts=options).value)
