"""The stack files at the root, read as Pulumi reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]


def stack_values(stack: str) -> dict[str, str]:
    """The configuration of a stack; like Pulumi's, every value is text."""
    text = (ROOT / f"Pulumi.{stack}.yaml").read_text()
    found: dict[str, Any] = yaml.safe_load(text)["config"]
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
    }
