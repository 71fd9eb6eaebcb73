"""The structure of a JSON Schema: its subschemas, references and types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import unquote

from broker_containers.schemas.errors import InvalidSchema

Node = dict[str, Any] | bool

_ONE: Final = (
    "additionalItems", "additionalProperties", "contains", "else", "if", "items", "not",
    "propertyNames", "then", "unevaluatedItems", "unevaluatedProperties",
)  # fmt: skip
_LIST: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_MAP: Final = (
    "$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties",
)  # fmt: skip
_OLD_DRAFTS: Final = ("draft-03", "draft-04", "draft-06", "draft-07")

TYPES: Final = frozenset(("null", "boolean", "object", "array", "string", "integer", "fraction"))
"""Types of JSON values; a number is an integer or a fraction."""


@dataclass(frozen=True)
class Parts:
    """A schema and its dialect."""

    root: Node
    dialect: str
    old: bool = field(init=False)
    """In old drafts keywords beside a ``$ref`` are ignored, and ``items`` may be a list."""

    def __post_init__(self) -> None:
        old = any(draft in self.dialect for draft in _OLD_DRAFTS)
        object.__setattr__(self, "old", old)

    def target(self, reference: str) -> Node:
        """The target of a reference. Raises ``InvalidSchema`` if it is missing or external."""
        if reference != "#" and not reference.startswith("#/"):
            raise InvalidSchema(
                f"the reference {reference!r} is external: put its target under $defs and refer to "
                "it as #/$defs/name"
            )
        node: Any = self.root
        for step in reference.split("/")[1:]:
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and name in node:
                node = node[name]
            elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
                node = node[int(name)]
            else:
                raise InvalidSchema(f"the reference {reference!r} has no target")
        if not isinstance(node, dict | bool):
            raise InvalidSchema(f"the target of the reference {reference!r} is not a schema")
        return node


def all_schemas(parts: Parts) -> Iterator[dict[str, Any]]:
    """Every subschema once, including those that are only referred to."""
    seen: set[int] = set()
    waiting: list[Any] = [parts.root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        yield node
        if isinstance(node.get("$ref"), str):
            waiting.append(parts.target(node["$ref"]))
        waiting += _children(node)


def _children(node: Mapping[str, Any]) -> Iterator[Any]:
    for name in _ONE:
        if isinstance(node.get(name), dict):
            yield node[name]
    for name in _LIST:
        if isinstance(node.get(name), list):
            yield from node[name]
    for name in _MAP:
        if isinstance(node.get(name), dict):
            yield from node[name].values()


def refers_to_itself(parts: Parts) -> bool:
    """Whether checking a value against a schema would require checking the same value again."""
    done: set[int] = set()
    for node in all_schemas(parts):
        waiting = [(node, False)]
        open_: set[int] = set()
        while waiting:
            current, left = waiting.pop()
            if left:
                open_.discard(id(current))
                done.add(id(current))
            elif id(current) in open_:
                return True
            elif id(current) not in done:
                open_.add(id(current))
                waiting.append((current, True))
                waiting += [(inner, False) for inner in _of_same_value(current, parts)]
    return False


def _of_same_value(node: Mapping[str, Any], parts: Parts) -> Iterator[dict[str, Any]]:
    found: list[Any] = [node.get(word) for word in ("if", "then", "else", "not")]
    for word in ("allOf", "anyOf", "oneOf"):
        found += node.get(word, ())
    if "$ref" in node:
        found.append(parts.target(node["$ref"]))
    return (inner for inner in found if isinstance(inner, dict))


def patterns_of(node: Mapping[str, Any]) -> Iterator[str]:
    """The regular expressions of a schema itself."""
    if "pattern" in node:
        yield node["pattern"]
    yield from node.get("patternProperties", ())


def types_of(node: Mapping[str, Any]) -> frozenset[str]:
    """The types of values that ``type`` allows."""
    named = node.get("type", ())
    names = {named} if isinstance(named, str) else set(named)
    if "number" in names:
        names |= {"integer", "fraction"}
    return TYPES & names if names else TYPES


def kind_of(value: Any) -> str:
    """The one of ``TYPES`` that a JSON value has."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else "boolean"
    if isinstance(value, float):
        return "integer" if value.is_integer() else "fraction"
    return {int: "integer", str: "string", list: "array"}.get(type(value), "object")


def prefix_of(node: Mapping[str, Any]) -> list[Node]:
    """The schemas of an array's first items, one per item."""
    items = node.get("items")
    found: list[Node] = items if isinstance(items, list) else node.get("prefixItems", [])
    return found


def rest_of(node: Mapping[str, Any]) -> Node | None:
    """The schema of the items after those; None if there is none."""
    items = node.get("items")
    found: Node | None = node.get("additionalItems") if isinstance(items, list) else items
    return found


def item_of(node: Mapping[str, Any], index: int) -> Node | None:
    """The schema of one item; None if there is none."""
    prefix = prefix_of(node)
    return prefix[index] if index < len(prefix) else rest_of(node)
