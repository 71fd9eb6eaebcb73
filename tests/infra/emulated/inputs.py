"""The inputs of a resource, each to be taken by who makes it: what nobody took is an error."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_SECRET = "4dabf18193072939515e22adb298388d"
"""By this name Pulumi marks a value as secret; the value lies beside it."""
_MAPS = ("tags", "Tags", "Variables", "Parameters", "targetTags", "TargetTags")
"""Values below these names have names of their own, which stay as they are."""


class ResourceInputs:
    """Inputs in Pulumi's spelling. Numbers that are whole are whole, secrets are plain."""

    def __init__(self, inputs: Mapping[str, Any]) -> None:
        self._left: dict[str, Any] = {name: plain(value) for name, value in inputs.items()}

    def take(self, name: str) -> Any:
        """A value that has to be there."""
        return self._left.pop(name)

    def may(self, name: str, default: Any = None) -> Any:
        """A value that may be there."""
        return self._left.pop(name, default)

    def drop(self, *names: str) -> None:
        """Values that only the provider needs, and AWS never sees."""
        for name in names:
            self._left.pop(name, None)

    def tags(self, key: str = "Key", value: str = "Value") -> list[dict[str, str]]:
        """The tags as most of AWS wants them."""
        found = self._left.pop("tags", {})
        return [{key: name, value: text} for name, text in found.items()]

    def rest(self) -> dict[str, Any]:
        """Everything that is left, in Pulumi's spelling."""
        found, self._left = self._left, {}
        return found

    def pascal(self) -> dict[str, Any]:
        """Everything that is left, with names that begin with a capital."""
        found: dict[str, Any] = pascal(self.rest())
        return found

    def end(self) -> None:
        """Raises ``ValueError`` if something was not taken."""
        if self._left:
            raise ValueError(f"nobody took {sorted(self._left)}: teach the maker")


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
