"""Reads a stack's file, ``Pulumi.<stack>.yaml``, without Pulumi."""

from __future__ import annotations

import json
from collections.abc import Mapping

import yaml

from infra.artifacts import ROOT
from infra.config.settings import StackSettings
from infra.config.values import PROJECT
from infra.errors import DeploymentError


def stack_values(stack: str) -> dict[str, str]:
    """All values of a stack's file; as in Pulumi, every value is text.

    Raises ``DeploymentError`` if there is no such file.
    """
    path = ROOT / f"Pulumi.{stack}.yaml"
    if not path.is_file():
        raise DeploymentError(
            f"{path.name} does not exist: name one of the stacks that have a file, or create one "
            f"with `pulumi stack init {stack}`"
        )
    found = (yaml.safe_load(path.read_text()) or {}).get("config") or {}
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
    }


def own_values(values: Mapping[str, str]) -> dict[str, str]:
    """Only Sulina's values, by name without the prefix."""
    prefix = f"{PROJECT}:"
    return {
        name.removeprefix(prefix): value
        for name, value in values.items()
        if name.startswith(prefix)
    }


def example_settings(stack: str, more: Mapping[str, str] | None = None) -> StackSettings:
    """The settings in a stack's file with ``more`` set, and with a domain if it requires one."""
    given = {**own_values(stack_values(stack)), **(more or {})}
    if given.get("requireTls") == "true":
        given = {"domain": "sulina.example.com", "zoneId": "Z0", **given}
    return StackSettings.parse(stack, given)
