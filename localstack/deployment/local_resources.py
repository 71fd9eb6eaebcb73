"""Resources that are not in an AWS account: certificates and images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localstack.deployment.certificates import MAKERS
from localstack.deployment.inputs import plain

_IMAGE = "docker-build:index:Image"


def made_here(kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """A resource's id and the properties that its provider adds; None for AWS resources."""
    if kind in MAKERS:
        return f"{name}-id", MAKERS[kind](plain(dict(given)))
    if kind == _IMAGE:
        digest = f"sha256:{'0' * 64}"
        return digest, {"digest": digest, "ref": f"{given['tags'][0]}@{digest}"}
    return None
