"""Avro schemas, with fastavro.

A payload is one datum in Avro's binary encoding, and nothing after it; ``avro_walk`` looks through
it. fastavro reads schemas only, and only those that are not nested deeply: it recurses in C without
a limit, and its decoder takes bytes that are no Avro for other readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from broker_containers.schemas import avro_resolution, avro_walk
from broker_containers.schemas.errors import InvalidSchema
from broker_containers.schemas.format import (
    MAX_DEPTH,
    canonical_json,
    check_nesting,
    fingerprint_of,
    json_of,
    lacking,
)

_RECORDS: Final = ("record", "error")
_PRIMITIVE: Final = frozenset(
    ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
)
_MAX_FIXED: Final = 16 << 20


class Avro:
    """An Avro schema. Two are the same if their JSON is."""

    compiled = None

    def __init__(self, definition: bytes) -> None:
        """Raises ``InvalidSchema``."""
        try:
            import fastavro
        except ImportError:
            raise lacking("fastavro", "Avro schemas") from None
        raw = json_of(definition, "Avro schema")
        check_nesting(raw)
        self.names: dict[str, Any] = {}
        """The named types, by their full names."""
        try:
            # A union of types of the same name, an unknown type, a default of another type, ...
            self.root = fastavro.parse_schema(raw, self.names)
        except Exception as error:
            raise InvalidSchema(f"it is not an Avro schema: {_words(error)}") from None
        self.fingerprint = fingerprint_of(canonical_json(raw))
        checker = _Checker(self.names)
        checker.check(self.root)
        if checker.depth(self.root) > MAX_DEPTH:
            raise InvalidSchema(f"data would be nested more than {MAX_DEPTH} levels: flatten it")

    def unreadable(self, writer: Avro) -> list[str]:
        return avro_resolution.unreadable(writer.root, writer.names, self.root, self.names)

    def check(self, payload: bytes) -> None:
        avro_walk.check(self.root, self.names, payload)


class _Checker:
    """What fastavro lets pass and nobody else would, and how deep data can go."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._depths: dict[str, int] = {}
        self._space: dict[str, bool] = {}

    def check(self, node: Any) -> None:
        """Raises ``InvalidSchema`` if this, or what is within, is wrong."""
        if isinstance(node, list):
            _check_union(node)
        elif isinstance(node, dict):
            kind = node["type"]
            if kind in _RECORDS:
                fields = [field["name"] for field in node["fields"]]
                if len(set(fields)) != len(fields):
                    raise InvalidSchema(f"{node['name']} has two fields with the same name")
            elif kind == "fixed":
                size = node["size"]
                if type(size) is not int or not 0 <= size <= _MAX_FIXED:
                    raise InvalidSchema(f"the size of the fixed type {node['name']} is {size!r}")
            elif kind == "array" and not self._takes_space(node["items"]):
                # A few bytes could then claim any number of items.
                raise InvalidSchema("the items of an array take no space: give them a type")
        for inner in children(node):
            self.check(inner)

    def depth(self, node: Any) -> int:
        """How many levels a datum has; a type within itself counts once."""
        name = _type_name(node)
        if name in _PRIMITIVE:
            return 1
        if name is not None:
            if name not in self._depths:
                self._depths[name] = 0  # until it is known: who comes here again is within it
                self._depths[name] = 1 + self._deepest(self._names[name])
            return self._depths[name]
        return 1 + self._deepest(node)

    def _deepest(self, node: Any) -> int:
        return max(map(self.depth, children(node)), default=0)

    def _takes_space(self, node: Any) -> bool:
        """Whether every datum takes a byte at least."""
        name = _type_name(node)
        if name is None:
            return True  # a union, an array and a map have an index or a count
        if name in _PRIMITIVE:
            return name != "null"
        if name not in self._space:
            self._space[name] = True  # within itself it is not decided by itself
            found = self._names[name]
            if found["type"] in _RECORDS:
                self._space[name] = any(self._takes_space(field) for field in children(found))
            elif found["type"] == "fixed":
                self._space[name] = found["size"] != 0
        return self._space[name]


def _check_union(branches: list[Any]) -> None:
    if any(isinstance(branch, list) for branch in branches):
        raise InvalidSchema("a union is directly within a union: write it as one")
    kinds = [_type_name(branch) or branch["type"] for branch in branches]
    if len(set(kinds)) != len(kinds):
        raise InvalidSchema(f"nobody could tell apart the branches of {kinds}: each type once")


def children(node: Any) -> Iterator[Any]:
    """The schemas directly within one; a name is not followed."""
    if isinstance(node, list):
        yield from node
    elif isinstance(node, dict):
        if node["type"] in _RECORDS:
            yield from (field["type"] for field in node["fields"])
        elif node["type"] == "array":
            yield node["items"]
        elif node["type"] == "map":
            yield node["values"]


def _type_name(node: Any) -> str | None:
    """The name of a named or primitive type; None for unions, arrays and maps."""
    if isinstance(node, str):
        return node
    if isinstance(node, dict):
        if "name" in node:
            return str(node["name"])
        if node["type"] in _PRIMITIVE:
            return str(node["type"])
    return None


def _words(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text[:200] or type(error).__name__
