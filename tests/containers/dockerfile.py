"""Reads a Dockerfile into its instructions, for tests of what it promises."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line of a Dockerfile, continued lines joined."""

    name: str
    value: str

    @property
    def words(self) -> list[str]:
        """The arguments of an instruction in JSON, or divided by spaces."""
        found: Any = json.loads(self.value) if self.value.startswith("[") else self.value.split()
        return [str(each) for each in found]


def stages(file: Path) -> list[list[Instruction]]:
    """The instructions of each stage, FROM first; the last one becomes the image."""
    text = re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.MULTILINE)
    found: list[list[Instruction]] = []
    for line in re.sub(r"\\\n", " ", text).splitlines():
        if not line.strip():
            continue
        name, _, value = line.strip().partition(" ")
        if name == "FROM":
            found.append([])
        found[-1].append(Instruction(name, value.strip()))
    return found


def values(stage: list[Instruction], name: str) -> list[Instruction]:
    """All instructions of one kind."""
    return [each for each in stage if each.name == name]
