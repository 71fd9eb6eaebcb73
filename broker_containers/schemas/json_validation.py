"""Checks JSON values against a schema, which is compiled to functions when it is first used.

Every schema that is applied to a value counts as a step, and long lists count more. Which keywords
exist depends on the schema's draft. ``json_keywords`` has the keywords of one value.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final

from broker_containers.schemas.json_keywords import VALUE_KEYWORDS, Check, Problem, problem
from broker_containers.schemas.json_parts import Node, Parts
from broker_containers.schemas.patterns import matches
from broker_containers.schemas.steps import spend

_FORBIDDEN: Final = "a schema that is false allows no value"


class JsonValidation:
    """The compiled parts of one schema. Can be used by several threads."""

    def __init__(self, parts: Parts, keywords: Collection[str]) -> None:
        """``keywords`` are those of the schema's draft."""
        self._parts = parts
        self._keywords = keywords
        self._compiled: dict[int, Check] = {}

    def problem(self, value: Any) -> Problem | None:
        """Why a value does not match the whole schema. Raises ``TooManySteps``."""
        return self.of(self._parts.root)(value)

    def of(self, node: Node) -> Check:
        """The check of a schema within this one."""
        found = self._compiled.get(id(node))
        if found is None:
            found = self._compiled[id(node)] = self._compile(node)
        return found

    def _holds(self, node: Node, value: Any) -> bool:
        return self.of(node)(value) is None

    def _compile(self, node: Node) -> Check:
        if isinstance(node, bool):
            return _anything if node else _nothing
        only = ("$ref",) if self._parts.old and "$ref" in node else node
        words = [word for word in only if word in self._keywords]
        checks = [
            VALUE_KEYWORDS[word](node[word], node) for word in words if word in VALUE_KEYWORDS
        ]
        if any(word in _ITEMS for word in words):
            checks.append(self._items(node))
        applying = [word for word in words if word in _APPLYING]
        checks += [_APPLYING[word](self, node[word], node) for word in applying]

        def check(value: Any) -> Problem | None:
            kind = type(value)
            spend(1 + (len(value) >> 3) if kind is dict or kind is list else 1)
            for each in checks:
                found = each(value)
                if found is not None:
                    return found
            return None

        return check

    # ---- the same value ----

    def _ref(self, reference: str, node: Node) -> Check:
        target = self._parts.target(reference)
        # Compiled on use: it may be a part of itself.
        return lambda value: self.of(target)(value)

    def _all_of(self, branches: list[Node], node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            for branch in branches:
                found = self.of(branch)(value)
                if found is not None:
                    return found
            return None

        return check

    def _any_of(self, branches: list[Node], node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            if any(self._holds(branch, value) for branch in branches):
                return None
            return problem(value, "matches none of the alternatives of anyOf")

        return check

    def _one_of(self, branches: list[Node], node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            count = 0
            for branch in branches:
                count += self._holds(branch, value)
                if count > 1:
                    return problem(value, "matches several alternatives of oneOf")
            return None if count else problem(value, "matches none of the alternatives of oneOf")

        return check

    def _not(self, excluded: Node, node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            if self._holds(excluded, value):
                return problem(value, "matches what `not` excludes")
            return None

        return check

    def _if(self, condition: Node, node: dict[str, Any]) -> Check:
        then, otherwise = node.get("then", True), node.get("else", True)

        def check(value: Any) -> Problem | None:
            return self.of(then if self._holds(condition, value) else otherwise)(value)

        return check

    # ---- arrays ----

    def _items(self, node: dict[str, Any]) -> Check:
        """For the keywords in ``_ITEMS`` together."""
        prefix, rest = self._item_schemas(node)

        def check(value: Any) -> Problem | None:
            if isinstance(value, list):
                for index, item in enumerate(value):
                    if index < len(prefix):
                        found = self.of(prefix[index])(item)
                    elif rest is None:
                        break
                    else:
                        found = self.of(rest)(item)
                    if found is not None:
                        return found.at(index)
            return None

        return check

    def _item_schemas(self, node: dict[str, Any]) -> tuple[list[Node], Node | None]:
        """The schemas of the first items, and of those after them."""
        items = node.get("items")
        if isinstance(items, list):
            return items, node.get("additionalItems")
        return node.get("prefixItems", []) if "prefixItems" in self._keywords else [], items

    def _contains(self, wanted: Node, node: dict[str, Any]) -> Check:
        least = 1 if self._parts.old else node.get("minContains", 1)
        most = None if self._parts.old else node.get("maxContains")

        def check(value: Any) -> Problem | None:
            if isinstance(value, list):
                count = sum(self._holds(wanted, item) for item in value)
                if count < least:
                    return problem(value, "has too few of the items that it must contain")
                if most is not None and count > most:
                    return problem(value, "has too many of the items that it may contain")
            return None

        return check

    def _unevaluated_items(self, rest: Node, node: dict[str, Any]) -> Check:
        def check(value: Any) -> Problem | None:
            if isinstance(value, list):
                known = set(self._evaluated_items(node, value))
                for index, item in enumerate(value):
                    found = None if index in known else self.of(rest)(item)
                    if found is not None:
                        return found.at(index)
            return None

        return check

    def _evaluated_items(self, node: Node, value: list[Any]) -> Iterator[int]:
        """The items that a schema, which holds, applies to."""
        for part in self._applied(node, value):
            spend(1 + (len(value) >> 3))
            prefix, rest = self._item_schemas(part)
            yield from range(min(len(prefix), len(value)) if rest is None else len(value))
            if "contains" in part and "prefixItems" in self._keywords:
                yield from (
                    index for index, item in enumerate(value) if self._holds(part["contains"], item)
                )
            if part is not node and "unevaluatedItems" in part:
                yield from range(len(value))

    # ---- objects ----

    def _properties(self, properties: dict[str, Node], node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            if isinstance(value, dict):
                for name, inner in value.items():
                    if name in properties:
                        found = self.of(properties[name])(inner)
                        if found is not None:
                            return found.at(name)
            return None

        return check

    def _pattern_properties(self, patterns: dict[str, Node], node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            if isinstance(value, dict):
                for name, inner in value.items():
                    for pattern, wanted in patterns.items():
                        found = self.of(wanted)(inner) if matches(pattern, name) else None
                        if found is not None:
                            return found.at(name)
            return None

        return check

    def _additional_properties(self, rest: Node, node: dict[str, Any]) -> Check:
        properties, patterns = node.get("properties", {}), node.get("patternProperties", {})

        def check(value: Any) -> Problem | None:
            if isinstance(value, dict):
                for name, inner in value.items():
                    if name not in properties and not _may_match(patterns, name):
                        found = self.of(rest)(inner)
                        if found is not None:
                            return found.at(name)
            return None

        return check

    def _property_names(self, wanted: Node, node: Node) -> Check:
        def check(value: Any) -> Problem | None:
            names = value if isinstance(value, dict) else ()
            return next((found for found in map(self.of(wanted), names) if found is not None), None)

        return check

    def _dependencies(self, dependencies: dict[str, Any], node: Node) -> Check:
        """For ``dependencies``, ``dependentRequired`` and ``dependentSchemas``."""

        def check(value: Any) -> Problem | None:
            if not isinstance(value, dict):
                return None
            spend(len(dependencies) >> 3)
            for name, needed in dependencies.items():
                if name not in value:
                    continue
                if isinstance(needed, list):
                    spend(len(needed) >> 3)
                    for other in needed:
                        if other not in value:
                            return problem(value, f"has {name!r} and therefore needs {other!r}")
                else:
                    found = self.of(needed)(value)
                    if found is not None:
                        return found
            return None

        return check

    def _unevaluated_properties(self, rest: Node, node: dict[str, Any]) -> Check:
        def check(value: Any) -> Problem | None:
            if isinstance(value, dict):
                known = set(self._evaluated_properties(node, value))
                for name, inner in value.items():
                    found = None if name in known else self.of(rest)(inner)
                    if found is not None:
                        return found.at(name)
            return None

        return check

    def _evaluated_properties(self, node: Node, value: dict[str, Any]) -> Iterator[str]:
        """The properties that a schema, which holds, applies to."""
        for part in self._applied(node, value):
            spend(1 + (len(value) >> 3))
            all_ = "additionalProperties" in part
            all_ = all_ or (part is not node and "unevaluatedProperties" in part)
            properties, patterns = part.get("properties", {}), part.get("patternProperties", {})
            for name in value:
                if all_ or name in properties or _may_match(patterns, name):
                    yield name

    def _applied(self, node: Node, value: Any) -> Iterator[dict[str, Any]]:
        """A schema, and those within it that apply to the same value and hold."""
        spend()
        if isinstance(node, bool):
            return
        yield node
        inner: list[Node] = [*node.get("allOf", ())]
        inner += [each for word in ("anyOf", "oneOf") for each in node.get(word, ())]
        if "$ref" in node:
            inner.append(self._parts.target(node["$ref"]))
        if isinstance(value, dict):
            dependent = node.get("dependentSchemas", {})
            inner += [each for name, each in dependent.items() if name in value]
        if "if" in node:
            chosen = "then" if self._holds(node["if"], value) else "else"
            inner += [node["if"], node.get(chosen, True)]
        for each in inner:
            if self._holds(each, value):
                yield from self._applied(each, value)


_ITEMS: Final = ("additionalItems", "items", "prefixItems")
_Make = Callable[[JsonValidation, Any, Any], Check]
_V: Final = JsonValidation
_APPLYING: Final[dict[str, _Make]] = {
    "$ref": _V._ref,
    "additionalProperties": _V._additional_properties,
    "allOf": _V._all_of,
    "anyOf": _V._any_of,
    "contains": _V._contains,
    "dependencies": _V._dependencies,
    "dependentRequired": _V._dependencies,
    "dependentSchemas": _V._dependencies,
    "if": _V._if,
    "not": _V._not,
    "oneOf": _V._one_of,
    "patternProperties": _V._pattern_properties,
    "properties": _V._properties,
    "propertyNames": _V._property_names,
    "unevaluatedItems": _V._unevaluated_items,
    "unevaluatedProperties": _V._unevaluated_properties,
}
"""Keywords with schemas, and what makes their checks."""


def _may_match(patterns: Collection[str], name: str) -> bool:
    """Whether one of them matches, or cannot be run."""
    return any(matches(pattern, name) is not False for pattern in patterns)


def _anything(value: Any) -> Problem | None:
    return None


def _nothing(value: Any) -> Problem | None:
    return Problem(_FORBIDDEN)
