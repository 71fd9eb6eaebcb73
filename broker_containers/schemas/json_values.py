"""The values that a JSON Schema allows, as simple alternatives.

An alternative is a list of schemas that all apply, for values of one type. ``$ref``, ``allOf``,
``anyOf`` and ``oneOf`` are resolved into alternatives; together they describe everything that the
schema allows, or more, never less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final, Protocol

from broker_containers.schemas.json_parts import TYPES, Node, Parts, types_of
from broker_containers.schemas.steps import spend

MAX_ALTERNATIVES: Final = 256


class CannotCompare(Exception):
    """The schemas cannot be compared, for a reason."""


@dataclass(frozen=True, slots=True)
class Alternative:
    """Values of one type that satisfy all of ``facts`` and none of ``others``."""

    facts: tuple[dict[str, Any], ...]
    types: frozenset[str]
    """One type; both kinds of numbers count as one."""
    others: tuple[Node, ...] = ()
    """The other branches of a ``oneOf`` that was resolved to one branch."""

    @property
    def key(self) -> tuple[Any, ...]:
        """Identifies it among alternatives of the same schema."""
        return tuple(map(id, self.facts)), self.types, tuple(map(id, self.others))

    def has(self, keyword: str) -> list[Any]:
        """All values of a keyword."""
        return [fact[keyword] for fact in self.facts if keyword in fact]


class Comparing(Protocol):
    """The comparison of two schemas, for the modules that compare one type."""

    def values(self, written: Sequence[Node], read: Node, path: str) -> list[str]:
        """Why values that satisfy all of ``written`` would not be valid for ``read``."""
        ...

    def same(self, written: Alternative, read: dict[str, Any], *keywords: str) -> bool:
        """Whether the writer has exactly the same keywords."""
        ...

    def name_holds(self, node: Node, name: str) -> bool:
        """Whether ``node`` of the reader allows a property of this name."""
        ...


def tell(path: str, why: str) -> str:
    """A sentence with its path in the data."""
    return f"{path}: {why}" if path else why


_Way = tuple[tuple[dict[str, Any], ...], tuple[Node, ...]]


def alternatives(nodes: Sequence[Node], parts: Parts) -> Iterator[Alternative]:
    """The alternatives of values that satisfy all of ``nodes``."""
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
        return [((), ())]  # it refers to itself and adds nothing
    spend(1 + (len(above) >> 3))
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
        raise CannotCompare("the schemas are too complex to compare: simplify them")
    for one, two in product(left, right):
        spend(1 + (len(one[0]) * len(two[0]) >> 4))
    # By identity: in Python {"const": true} equals {"const": 1}.
    return [
        (
            one[0] + tuple(fact for fact in two[0] if all(fact is not seen for seen in one[0])),
            one[1] + two[1],
        )
        for one, two in product(left, right)
    ]
