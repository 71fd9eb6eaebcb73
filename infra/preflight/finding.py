"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence with cause and remedy; ``stops`` if a deployment would fail."""

    text: str
    stops: bool = True
