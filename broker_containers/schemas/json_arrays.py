"""Compares what two JSON Schemas require of arrays."""

from __future__ import annotations

from math import inf
from typing import Any, Final

from broker_containers.schemas.json_parts import Node, item_of, prefix_of, rest_of
from broker_containers.schemas.json_scalars import counts
from broker_containers.schemas.json_values import Alternative, Comparing, tell
from broker_containers.schemas.steps import spend

_OPAQUE: Final = (("contains", "minContains", "maxContains"), ("unevaluatedItems",))
"""Keywords compared as a whole: if they differ, data counts as unreadable."""


def compare(
    comparison: Comparing, written: Alternative, read: dict[str, Any], path: str
) -> list[str]:
    """Why arrays of the writer would not be valid."""
    if written.types != {"array"}:
        return []
    longest = min([_longest(fact) for fact in written.facts], default=inf)
    wrong = counts(written, read, "minItems", "maxItems", at_most=longest)
    if read.get("uniqueItems") and not any(written.has("uniqueItems")):
        wrong.append("uniqueItems")
    found = [tell(path, f"{word} is stricter than in written data") for word in wrong]
    found += [
        tell(path, f"{words[0]} changed and cannot be compared")
        for words in _OPAQUE
        if words[0] in read and not comparison.same(written, read, *words)
    ]

    longest = min([longest, *written.has("maxItems")])
    known = max([len(prefix_of(node)) for node in (read, *written.facts)])
    for index in range(known):
        wanted = item_of(read, index)
        if wanted is not None and index < longest:
            found += comparison.values(_items(written, index), wanted, f"{path}[{index}]")
    rest = rest_of(read)
    if rest is not None and known < longest:
        found += comparison.values(_items(written, known), rest, f"{path}[]")
    return found


def _items(written: Alternative, index: int) -> list[Node]:
    """The writer's schemas for one item."""
    spend(len(written.facts))
    said = (item_of(fact, index) for fact in written.facts)
    return [node for node in said if node is not None]


def _longest(fact: dict[str, Any]) -> float:
    return len(prefix_of(fact)) if rest_of(fact) is False else inf
