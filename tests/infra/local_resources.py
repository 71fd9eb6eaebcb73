"""Resources that are made where the program runs, and not in an account: certificates, images."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.infra.certificates import MAKERS
from tests.infra.emulated.inputs import plain

_IMAGE = "docker-build:index:Image"


def made_here(kind: str, name: str, given: Mapping[str, Any]) -> tuple[str, dict[str, Any]] | None:
    """A resource's id, and what its provider adds; None for resources of an account."""
    if kind in MAKERS:
        return f"{name}-id", MAKERS[kind](plain(dict(given)))
    if kind == _IMAGE:
        digest = f"sha256:{'0' * 64}"
        return digest, {"digest": digest, "ref": f"{given['tags'][0]}@{digest}"}
    return None
