"""Avro schemas, using fastavro.

A payload is exactly one datum in Avro's binary encoding; ``avro_walk`` checks it. fastavro only
parses schemas, and only those that are not nested deeply: it recurses in C without a limit, and its
decoder accepts bytes that are not valid Avro.
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
    """An Avro schema. Two are equal if their JSON is."""

    compiled = None
    unchecked = ()

    def __init__(self, definition: bytes) -> None:
        """Raises ``InvalidSchema``."""
        try:
            import fastavro
        except ImportError:
            raise lacking("fastavro", "Avro schemas") from None
        raw = json_of(definition, "Avro schema")
        check_nesting(raw)
        self.names: dict[str, Any] = {}
        """The named types by full name."""
        try:
            # Two types with one name in a union, an unknown type, a default of the wrong type, ...
            self.root = fastavro.parse_schema(raw, self.names)
        except Exception as error:
            raise InvalidSchema(f"not an Avro schema: {_words(error)}") from None
        self.fingerprint = fingerprint_of(canonical_json(raw))
        checker = _Checker(self.names)
        checker.check(self.root)
        if checker.depth(self.root) > MAX_DEPTH:
            raise InvalidSchema(f"data could be nested more than {MAX_DEPTH} levels: flatten it")

    def unreadable(self, writer: Avro) -> list[str]:
        return avro_resolution.unreadable(writer.root, writer.names, self.root, self.names)

    def check(self, payload: bytes) -> None:
        avro_walk.check(self.root, self.names, payload)


class _Checker:
    """Rejects what fastavro accepts and other libraries do not; computes how deep data can be."""

    def __init__(self, names: Mapping[str, Any]) -> None:
        self._names = names
        self._depths: dict[str, int] = {}
        self._space: dict[str, bool] = {}

    def check(self, node: Any) -> None:
        """Raises ``InvalidSchema`` if this node, or one within it, is invalid."""
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
                # Otherwise a few bytes could claim any number of items.
                raise InvalidSchema("the items of an array take no space: give them another type")
        for inner in children(node):
            self.check(inner)

    def depth(self, node: Any) -> int:
        """How many levels a datum can have; a recursive type counts once."""
        name = _type_name(node)
        if name in _PRIMITIVE:
            return 1
        if name is not None:
            if name not in self._depths:
                self._depths[name] = 0  # while it is computed: a recursive use counts 0
                self._depths[name] = 1 + self._deepest(self._names[name])
            return self._depths[name]
        return 1 + self._deepest(node)

    def _deepest(self, node: Any) -> int:
        return max(map(self.depth, children(node)), default=0)

    def _takes_space(self, node: Any) -> bool:
        """Whether every datum takes at least one byte."""
        name = _type_name(node)
        if name is None:
            return True  # a union, an array and a map have an index or a count
        if name in _PRIMITIVE:
            return name != "null"
        if name not in self._space:
            self._space[name] = True  # a recursive use does not decide it
            found = self._names[name]
            if found["type"] in _RECORDS:
                self._space[name] = any(self._takes_space(field) for field in children(found))
            elif found["type"] == "fixed":
                self._space[name] = found["size"] != 0
        return self._space[name]


def _check_union(branches: list[Any]) -> None:
    if any(isinstance(branch, list) for branch in branches):
        raise InvalidSchema("a union contains a union directly: merge them")
    kinds = [_type_name(branch) or branch["type"] for branch in branches]
    if len(set(kinds)) != len(kinds):
        raise InvalidSchema(f"the branches of {kinds} cannot be told apart: use each type once")


def children(node: Any) -> Iterator[Any]:
    """The schemas directly within one; named types are not followed."""
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
