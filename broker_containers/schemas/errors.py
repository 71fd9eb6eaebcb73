"""Errors of the registry that doors distinguish."""

from __future__ import annotations

from collections.abc import Sequence

from sulina.errors import Refused


class InvalidSchema(Refused):
    """The definition, type or mode is invalid, independent of what is registered."""


class Incompatible(Refused):
    """Readers and writers of other versions could not exchange data."""

    def __init__(self, subject: str, mode: str, reasons: Sequence[str]) -> None:
        super().__init__(
            f"Schema is not compatible with subject {subject!r} (mode: {mode}): "
            f"{'; '.join(reasons)}. Change it, or set another compatibility mode"
        )
        self.reasons = tuple(reasons)


class InvalidPayload(Refused):
    """A message does not match the schema that it names or that its topic requires."""
