"""Compares what two JSON Schemas require of numbers, strings and counts."""

from __future__ import annotations

from math import ceil, floor, inf
from typing import Any, Final

from broker_containers.schemas.json_values import Alternative, Comparing, tell

_NUMBERS: Final = frozenset(("integer", "fraction"))
_Bound = tuple[float, bool]
"""A limit, and whether it is exclusive."""
_NO_BOUND: Final[_Bound] = (-inf, False)


def compare(
    comparison: Comparing, written: Alternative, read: dict[str, Any], path: str
) -> list[str]:
    """Why numbers or strings of the writer would not be valid."""
    if written.types <= _NUMBERS:
        wrong = _numbers(comparison, written, read)
    elif written.types == {"string"}:
        wrong = counts(written, read, "minLength", "maxLength")
        if "pattern" in read and not comparison.same(written, read, "pattern"):
            wrong.append("pattern")
    else:
        return []
    return [tell(path, f"{word} is stricter than in written data") for word in wrong]


def counts(
    written: Alternative,
    read: dict[str, Any],
    least: str,
    most: str,
    *,
    at_least: int = 0,
    at_most: float = inf,
) -> list[str]:
    """Which limits of the reader are stricter than the writer's, or than its known bounds."""
    wrong = []
    if max([at_least, *written.has(least)]) < read.get(least, 0):
        wrong.append(least)
    if min([at_most, *written.has(most)]) > read.get(most, inf):
        wrong.append(most)
    return wrong


def _numbers(comparison: Comparing, written: Alternative, read: dict[str, Any]) -> list[str]:
    wrong = []
    whole = written.types == {"integer"}
    for word, exclusive, sign in (
        ("minimum", "exclusiveMinimum", 1),
        ("maximum", "exclusiveMaximum", -1),
    ):
        if isinstance(read.get(exclusive), bool):  # draft 4
            if not comparison.same(written, read, word, exclusive):
                wrong.append(word)
            continue
        wanted = _bound(read, word, exclusive, sign, whole)
        said = (_bound(fact, word, exclusive, sign, whole) for fact in written.facts)
        promised = max(said, default=_NO_BOUND)
        if promised < wanted:
            wrong.append(exclusive if exclusive in read else word)
    if "multipleOf" in read and not (
        comparison.same(written, read, "multipleOf")
        or _is_multiple(written, read["multipleOf"], whole)
    ):
        wrong.append("multipleOf")
    return wrong


def _bound(node: dict[str, Any], word: str, exclusive: str, sign: int, whole: bool) -> _Bound:
    """The stricter of both limits as a lower limit; ``sign`` -1 mirrors everything."""
    found = _NO_BOUND
    if word in node:
        limit = sign * node[word]
        found = max(found, (ceil(limit) if whole else limit, False))
    other = node.get(exclusive)
    if other is not None and not isinstance(other, bool):
        limit = sign * other
        found = max(found, (floor(limit) + 1, False) if whole else (limit, True))
    return found


def _is_multiple(written: Alternative, of: float, whole: bool) -> bool:
    if not isinstance(of, int):
        return False  # fractions are not compared: their remainders are inexact
    steps = [step for step in written.has("multipleOf") if isinstance(step, int)]
    return any(step % of == 0 for step in steps) or (whole and of == 1)
