"""Compares what two JSON Schemas require of objects."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf
from typing import Any, Final

from broker_containers.schemas.json_parts import Node
from broker_containers.schemas.json_scalars import counts
from broker_containers.schemas.json_values import Alternative, CannotCompare, Comparing, tell
from broker_containers.schemas.patterns import matches
from broker_containers.schemas.steps import spend

_OPAQUE: Final = (
    "dependencies", "dependentRequired", "dependentSchemas", "unevaluatedProperties",
)  # fmt: skip
"""Keywords compared as a whole: if they differ, data counts as unreadable."""


def compare(
    comparison: Comparing, written: Alternative, read: dict[str, Any], path: str
) -> list[str]:
    """Why objects of the writer would not be valid."""
    if written.types != {"object"}:
        return []
    return [*_Objects(written).compare(comparison, read, path)]


class _Objects:
    """The writer's objects."""

    def __init__(self, written: Alternative) -> None:
        self._written = written
        self.required = {name for names in written.has("required") for name in names}
        self.named = {name for names in written.has("properties") for name in names}
        self.patterns = {each for patterns in written.has("patternProperties") for each in patterns}
        others: list[Node] = written.has("additionalProperties")
        if not (self.named or self.patterns or others):
            others = [True]  # it names no properties, so it may write any
        self.others = [] if any(node is False for node in others) else others
        """Schemas of the properties that are not named; empty if there are none."""
        self.open = bool(self.patterns or self.others)
        """Whether there may be unnamed properties."""

    def compare(self, comparison: Comparing, read: dict[str, Any], path: str) -> Iterable[str]:
        yield from self._limits(comparison, read, path)
        for word in _OPAQUE:
            if word in read and not comparison.same(self._written, read, word):
                yield tell(path, f"{word} changed and cannot be compared")
        for name in read.get("required", ()):
            if name not in self.required:
                yield tell(_at(path, name), "it is required and may be missing in data")
        names = {*read.get("properties", ()), *self.named, *self.required}
        for name in sorted(names):
            said = self._of_name(name)
            if said is not None:
                for node in _wanted(read, name):
                    yield from comparison.values(said, node, _at(path, name))
        if self.open:
            yield from self._unnamed(comparison, read, path)

    def _limits(self, comparison: Comparing, read: dict[str, Any], path: str) -> Iterable[str]:
        wrong = counts(
            self._written,
            read,
            "minProperties",
            "maxProperties",
            at_least=len(self.required),
            at_most=inf if self.open else len(self.named | self.required),
        )
        for word in wrong:
            yield tell(path, f"{word} is stricter than in written data")
        if "propertyNames" in read and not comparison.same(self._written, read, "propertyNames"):
            allowed = read["propertyNames"]
            if self.open:
                yield tell(path, "propertyNames changed and cannot be compared")
            for name in sorted(self.named | self.required):
                if self._of_name(name) is not None and not comparison.name_holds(allowed, name):
                    yield tell(_at(path, name), "the name is not allowed")

    def _of_name(self, name: str) -> list[Node] | None:
        """The writer's schemas of a property; None if it does not write it."""
        said = [node for fact in self._written.facts for node in _wanted(fact, name)]
        if any(node is False for node in said):
            return None
        may_be = said or self.others or name in self.named | self.required
        return said if may_be else None

    def _unnamed(self, comparison: Comparing, read: dict[str, Any], path: str) -> Iterable[str]:
        """Unnamed properties: those of each pattern, and any others."""
        place = _at(path, "*")
        patterns: dict[str, Node] = read.get("patternProperties", {})
        remaining = [read["additionalProperties"]] if "additionalProperties" in read else []
        for fact in self._written.facts:
            for pattern, node in fact.get("patternProperties", {}).items():
                # Names that match the same pattern are covered by it.
                wanted = [*patterns.values(), *([] if pattern in patterns else remaining)]
                for other in wanted:
                    yield from comparison.values([node], other, place)
        if self.others:
            new = [node for pattern, node in patterns.items() if pattern not in self.patterns]
            for other in (*new, *remaining):
                yield from comparison.values(self.others, other, place)


def _wanted(node: dict[str, Any], name: str) -> list[Node]:
    """A schema's subschemas for a property of this name."""
    spend()
    found: list[Node] = []
    if name in node.get("properties", {}):
        found.append(node["properties"][name])
    for pattern, inner in node.get("patternProperties", {}).items():
        match = matches(pattern, name)
        if match is None:
            raise CannotCompare(
                f"the pattern {pattern[:80]!r} cannot be run: set the compatibility mode to none "
                "for the version that replaces it"
            )
        if match:
            found.append(inner)
    if not found and "additionalProperties" in node:
        found.append(node["additionalProperties"])
    return found


def _at(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
