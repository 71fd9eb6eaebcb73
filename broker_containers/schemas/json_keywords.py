"""The keywords of JSON Schema that look at one value alone."""

from __future__ import annotations

from collections.abc import Callable, Sized
from fractions import Fraction
from math import isinf
from typing import Any, Final

from broker_containers.schemas.patterns import matches
from broker_containers.schemas.steps import spend

_SHORT: Final = 80


class Problem:
    """Why a value does not match, and where it is in the whole value."""

    def __init__(self, why: str) -> None:
        self.why = why
        self._steps: list[str] = []

    def at(self, step: str | int) -> Problem:
        """The same, seen from the value that contains it."""
        plain = isinstance(step, str) and step.isidentifier()
        self._steps.append(f".{step}" if plain else f"[{step!r}]")
        return self

    @property
    def path(self) -> str:
        return "$" + "".join(reversed(self._steps))


Check = Callable[[Any], Problem | None]
_Make = Callable[[Any, dict[str, Any]], Check]
"""From a keyword's value, and the schema that it is in."""


def problem(value: Any, why: str) -> Problem:
    """A problem of a value, which may be large."""
    if isinstance(value, dict | list):
        return Problem(f"the {'object' if isinstance(value, dict) else 'array'} {why}")
    text = repr(value[:_SHORT] if isinstance(value, str) else value)
    return Problem(f"{text[:_SHORT]}{'...' if len(text) > _SHORT else ''} {why}")


def key_of(value: Any) -> Any:
    """Equal for equal JSON values, and hashable: 1 equals 1.0, but not true. Counts steps."""
    if isinstance(value, bool):
        return bool, value
    if isinstance(value, list):
        spend(1 + (len(value) >> 2))
        return list, tuple(map(key_of, value))
    if isinstance(value, dict):
        spend(2 + len(value))
        return dict, frozenset((name, key_of(inner)) for name, inner in value.items())
    return value


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_integer(value: Any) -> bool:
    return is_number(value) and (isinstance(value, int) or value.is_integer())


_TYPES: Final[dict[str, Callable[[Any], bool]]] = {
    "array": lambda value: isinstance(value, list),
    "boolean": lambda value: isinstance(value, bool),
    "integer": _is_integer,
    "null": lambda value: value is None,
    "number": is_number,
    "object": lambda value: isinstance(value, dict),
    "string": lambda value: isinstance(value, str),
}


def _type(named: str | list[str], node: dict[str, Any]) -> Check:
    names = [named] if isinstance(named, str) else named
    tests = [_TYPES[name] for name in names]
    first, others = tests[0], tests[1:]

    def check(value: Any) -> Problem | None:
        if first(value) or any(test(value) for test in others):
            return None
        return problem(value, f"is not of type {' or '.join(names)}")

    return check


def _enum(values: list[Any], node: dict[str, Any]) -> Check:
    keys = frozenset(map(key_of, values))

    def check(value: Any) -> Problem | None:
        return None if key_of(value) in keys else problem(value, "is not one of the values of enum")

    return check


def _const(wanted: Any, node: dict[str, Any]) -> Check:
    key = key_of(wanted)

    def check(value: Any) -> Problem | None:
        return None if key_of(value) == key else problem(value, "is not the value of const")

    return check


def _limit(wrong: Callable[[Any, Any], bool], why: str) -> _Make:
    def make(limit: Any, node: dict[str, Any]) -> Check:
        def check(value: Any) -> Problem | None:
            if is_number(value) and wrong(value, limit):
                return problem(value, f"{why} {limit}")
            return None

        return check

    return make


def _count(of: type[Sized], wrong: Callable[[int, Any], bool], why: str) -> _Make:
    def make(limit: Any, node: dict[str, Any]) -> Check:
        def check(value: Any) -> Problem | None:
            if isinstance(value, of) and wrong(len(value), limit):
                return problem(value, f"{why} {limit}")
            return None

        return check

    return make


def _exclusive(make: _Make, word: str) -> _Make:
    """``minimum`` and ``maximum`` of draft 4, which a boolean beside them makes exclusive."""

    def either(limit: Any, node: dict[str, Any]) -> Check:
        return (VALUE_KEYWORDS[word] if node.get(word) is True else make)(limit, node)

    return either


def _unless_boolean(make: _Make) -> _Make:
    def either(limit: Any, node: dict[str, Any]) -> Check:
        return (lambda value: None) if isinstance(limit, bool) else make(limit, node)

    return either


def _multiple_of(step: Any, node: dict[str, Any]) -> Check:
    def check(value: Any) -> Problem | None:
        if not is_number(value) or _is_multiple(value, step):
            return None
        return problem(value, f"is not a multiple of {step}")

    return check


def _is_multiple(value: Any, step: Any) -> bool:
    if isinstance(value, int) and isinstance(step, int):
        return value % step == 0
    try:
        quotient = value / step
    except OverflowError:
        quotient = float("inf")
    if isinf(quotient):
        return (Fraction(value) / Fraction(step)).denominator == 1
    return bool(quotient == int(quotient))


def _pattern(pattern: str, node: dict[str, Any]) -> Check:
    def check(value: Any) -> Problem | None:
        if isinstance(value, str) and matches(pattern, value) is False:
            return problem(value, f"does not match the pattern {pattern[:_SHORT]!r}")
        return None

    return check


def _unique_items(wanted: bool, node: dict[str, Any]) -> Check:
    def check(value: Any) -> Problem | None:
        if wanted and isinstance(value, list) and len(set(map(key_of, value))) < len(value):
            return problem(value, "has equal items")
        return None

    return check


def _required(names: list[str], node: dict[str, Any]) -> Check:
    def check(value: Any) -> Problem | None:
        if isinstance(value, dict):
            spend(len(names) >> 3)
            for name in names:
                if name not in value:
                    return problem(value, f"lacks the required property {name[:_SHORT]!r}")
        return None

    return check


def _less(value: Any, limit: Any) -> bool:
    return bool(value < limit)


def _more(value: Any, limit: Any) -> bool:
    return bool(value > limit)


VALUE_KEYWORDS: Final[dict[str, _Make]] = {
    "const": _const,
    "enum": _enum,
    "exclusiveMaximum": _unless_boolean(_limit(lambda a, b: a >= b, "is not less than")),
    "exclusiveMinimum": _unless_boolean(_limit(lambda a, b: a <= b, "is not more than")),
    "maxItems": _count(list, _more, "has more items than"),
    "maxLength": _count(str, _more, "is longer than"),
    "maxProperties": _count(dict, _more, "has more properties than"),
    "maximum": _exclusive(_limit(_more, "is more than"), "exclusiveMaximum"),
    "minItems": _count(list, _less, "has fewer items than"),
    "minLength": _count(str, _less, "is shorter than"),
    "minProperties": _count(dict, _less, "has fewer properties than"),
    "minimum": _exclusive(_limit(_less, "is less than"), "exclusiveMinimum"),
    "multipleOf": _multiple_of,
    "pattern": _pattern,
    "required": _required,
    "type": _type,
    "uniqueItems": _unique_items,
}
