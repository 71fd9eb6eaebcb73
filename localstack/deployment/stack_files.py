"""Reads the stack files at the repository root like Pulumi."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def stack_values(stack: str) -> dict[str, str]:
    """The configuration of a stack; as in Pulumi, every value is text."""
    text = (ROOT / f"Pulumi.{stack}.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["config"]
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
    }
