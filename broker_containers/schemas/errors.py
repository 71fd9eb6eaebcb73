"""What the registry refuses, where a door may want to tell one from another."""

from __future__ import annotations

from collections.abc import Sequence

from sulina.errors import Refused


class InvalidSchema(Refused):
    """The definition, the type or the mode makes no sense, whatever is registered already."""


class Incompatible(Refused):
    """Readers and writers of other versions would not understand each other."""

    def __init__(self, subject: str, mode: str, reasons: Sequence[str]) -> None:
        super().__init__(
            f"Schema is not compatible with subject {subject!r} (mode: {mode}): "
            f"{'; '.join(reasons)}. Change it, or set another compatibility mode"
        )
        self.reasons = tuple(reasons)


class InvalidPayload(Refused):
    """A message is not as the schema says that it names, or that its topic asks for."""
