"""The values a JSON Schema allows, as alternatives that are simple to reason about.

An alternative is a list of schemas that all hold, for values of one type. ``$ref``, ``allOf``,
``anyOf`` and ``oneOf`` are resolved into it; what the alternatives describe together is everything
that the schema allows, or more than that, never less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Protocol

from broker_containers.schemas.json_parts import TYPES, Node, Parts, types_of

MAX_ALTERNATIVES: Final = 256


class TooComplicated(Exception):
    """More alternatives than anybody wants to wait for."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Values of one type for which all of ``facts`` hold and none of ``others``."""

    facts: tuple[dict[str, Any], ...]
    types: frozenset[str]
    """One type; both kinds of numbers count as one."""
    others: tuple[Node, ...] = ()
    """The branches of a ``oneOf`` that was resolved to another of its branches."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells it from others of the same schema."""
        return tuple(map(id, self.facts)), self.types, tuple(map(id, self.others))

    def has(self, keyword: str) -> list[Any]:
        """All values of a keyword."""
        return [fact[keyword] for fact in self.facts if keyword in fact]


class Comparing(Protocol):
    """The comparison of two schemas, for the parts of it that look at one type."""

    def values(self, written: Sequence[Node], read: Node, path: str) -> list[str]:
        """Why values for which all of ``written`` hold would not be valid for ``read``."""
        ...

    def same(self, written: Alternative, read: dict[str, Any], *keywords: str) -> bool:
        """Whether the writer says exactly the same with these keywords."""
        ...

    def name_holds(self, node: Node, name: str) -> bool:
        """Whether a property may have this name, as far as ``node`` of the reader says."""
        ...


def tell(path: str, why: str) -> str:
    """A sentence about a place in the data."""
    return f"{path}: {why}" if path else why


_Way = tuple[tuple[dict[str, Any], ...], tuple[Node, ...]]


def alternatives(nodes: Sequence[Node], parts: Parts) -> Iterator[Alternative]:
    """What values are, for which all of ``nodes`` hold."""
    ways: list[_Way] = [((), ())]
    for node in nodes:
        ways = _both(ways, _ways(node, parts, ()))
    for facts, others in ways:
        types = TYPES
        for fact in facts:
            types &= types_of(fact)
        numbers = types & {"integer", "fraction"}
        for group in (numbers, *(frozenset((name,)) for name in sorted(types - numbers))):
            if group:
                yield Alternative(facts, group, others)


def _ways(node: Node, parts: Parts, above: tuple[int, ...]) -> list[_Way]:
    if isinstance(node, bool):
        return [((), ())] if node else []
    if id(node) in above:
        return [((), ())]  # it refers to itself, and so says nothing more
    above = (*above, id(node))
    ways: list[_Way] = [((), ())]
    if "$ref" in node:
        ways = _ways(parts.target(node["$ref"]), parts, above)
        if parts.old:
            return ways
    ways = _both(ways, [((node,), ())])
    for inner in node.get("allOf", ()):
        ways = _both(ways, _ways(inner, parts, above))
    if "anyOf" in node:
        ways = _both(ways, [way for inner in node["anyOf"] for way in _ways(inner, parts, above)])
    if "oneOf" in node:
        branches = node["oneOf"]
        ways = _both(
            ways,
            [
                (facts, (*others, *branches[:index], *branches[index + 1 :]))
                for index, inner in enumerate(branches)
                for facts, others in _ways(inner, parts, above)
            ],
        )
    return ways


def _both(left: list[_Way], right: list[_Way]) -> list[_Way]:
    if len(left) * len(right) > MAX_ALTERNATIVES:
        raise TooComplicated
    # By identity: for Python {"const": true} and {"const": 1} are equal.
    return [
        (
            one[0] + tuple(fact for fact in two[0] if all(fact is not seen for seen in one[0])),
            one[1] + two[1],
        )
        for one, two in product(left, right)
    ]
