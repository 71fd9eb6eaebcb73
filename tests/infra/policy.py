"""Evaluates policy documents like AWS.

A request is an action, a resource, and the context keys that conditions use. An explicit deny wins;
otherwise an allow is required. Elements that our policies do not use raise an error, because an
evaluator that ignored them could allow too much.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Facts = Mapping[str, str]
_NOTHING: Facts = {}
_KNOWN = {"Sid", "Effect", "Action", "Resource", "Principal", "Condition"}


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a document."""

    sid: str
    effect: str
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    principals: Mapping[str, tuple[str, ...]]
    conditions: Mapping[str, Mapping[str, tuple[str, ...]]]

    def covers(self, action: str, resource: str, facts: Facts) -> bool:
        """Whether it applies to a request."""
        return (
            any(matches(pattern.lower(), action.lower()) for pattern in self.actions)
            and (not self.resources or any(matches(each, resource) for each in self.resources))
            and all(_holds(operator, values, facts) for operator, values in self.conditions.items())
        )


@dataclass(frozen=True, slots=True)
class IamPolicy:
    """The statements of one or more documents."""

    statements: tuple[Statement, ...]

    @classmethod
    def of(cls, *documents: str) -> IamPolicy:
        """From JSON."""
        found = [_statements(json.loads(document)) for document in documents]
        return cls(tuple(statement for each in found for statement in each))

    def allows(
        self,
        action: str,
        resource: str,
        facts: Facts = _NOTHING,
        principal: tuple[str, str] | None = None,
    ) -> bool:
        """Whether a request is allowed; resource policies also need a principal."""
        speaking = [
            statement
            for statement in self.statements
            if statement.covers(action, resource, facts) and _is_for(statement, principal)
        ]
        if any(statement.effect == "Deny" for statement in speaking):
            return False
        return any(statement.effect == "Allow" for statement in speaking)


def matches(pattern: str, text: str) -> bool:
    """A pattern with ``*`` and ``?``."""
    parts = (".*" if char == "*" else "." if char == "?" else re.escape(char) for char in pattern)
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


def _is_for(statement: Statement, principal: tuple[str, str] | None) -> bool:
    if not statement.principals:
        return principal is None
    if "*" in statement.principals:
        return True
    return principal is not None and principal[1] in statement.principals.get(principal[0], ())


def _holds(operator: str, values: Mapping[str, tuple[str, ...]], facts: Facts) -> bool:
    """Whether all keys of an operator match one of their values; a missing key does not match."""
    for key, wanted in values.items():
        fact = facts.get(key)
        if operator == "Null":
            if (fact is None) != (wanted == ("true",)):
                return False
            continue
        if operator == "ArnNotEquals":
            if fact in wanted:
                return False
            continue  # without the key it holds
        if fact is None:
            return False
        if operator in ("StringEquals", "ArnEquals", "Bool"):
            held = fact in wanted
        elif operator in ("StringLike", "ArnLike"):
            held = any(matches(each, fact) for each in wanted)
        else:
            raise ValueError(f"the evaluator does not know {operator}: add support for it")
        if not held:
            return False
    return True


def _statements(document: Mapping[str, Any]) -> Iterable[Statement]:
    for found in document["Statement"]:
        unknown = found.keys() - _KNOWN
        if unknown:
            raise ValueError(f"the evaluator does not know {sorted(unknown)}: add support for it")
        principal = found.get("Principal", {})
        if principal == "*":
            principal = {"*": "*"}
        yield Statement(
            found.get("Sid", ""),
            found["Effect"],
            _many(found["Action"]),
            _many(found.get("Resource", ())),
            {kind: _many(who) for kind, who in principal.items()},
            {
                operator: {key: _many(value) for key, value in values.items()}
                for operator, values in found.get("Condition", {}).items()
            },
        )


def _many(value: str | Sequence[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)
