"""The inputs of a resource; it is an error if one is not used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SECRET = "4dabf18193072939515e22adb298388d"
"""The key with which Pulumi marks a value as secret; the value is next to it."""
_MAPS = ("tags", "Tags", "Variables", "Parameters", "targetTags", "TargetTags")
"""Maps under these names have arbitrary keys, which are not converted."""


class ResourceInputs:
    """Inputs in Pulumi's spelling. Numbers that are whole are whole, secrets are plain."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._left: dict[str, Any] = {name: plain(value) for name, value in inputs.items()}

    def take(self, name: str) -> Any:
        """A required value."""
        return self._left.pop(name)

    def may(self, name: str, default: Any = None) -> Any:
        """An optional value."""
        return self._left.pop(name, default)

    def drop(self, *names: str) -> None:
        """Discard values that only the provider needs."""
        for name in names:
            self._left.pop(name, None)

    def tags(self, key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
        """The tags in the form that most AWS APIs use."""
        found = self._left.pop("tags", {})
        return [{key: name, value: text} for name, text in found.items()]

    def rest(self) -> dict[str, Any]:
        """The remaining values, with Pulumi's names."""
        found, self._left = self._left, {}
        return found

    def pascal(self) -> dict[str, Any]:
        """The remaining values, with capitalized names."""
        found: dict[str, Any] = pascal(self.rest())
        return found

    def end(self) -> None:
        """Raises ``ValueError`` if a value was not used."""
        if self._left:
            raise ValueError(f"unused inputs {sorted(self._left)}: add support for them")


def plain(value: Any) -> Any:
    """A value without Pulumi's wrapping."""
    if isinstance(value, dict):
        if _SECRET in value:
            return plain(value["value"])
        return {name: plain(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def pascal(value: Any) -> Any:
    """Names of the kind ``storageClass`` as ``StorageClass``, at every depth."""
    if isinstance(value, dict):
        return {
            name[0].upper() + name[1:]: inner if name in _MAPS else pascal(inner)
            for name, inner in value.items()
        }
    if isinstance(value, list):
        return [pascal(inner) for inner in value]
    return value
