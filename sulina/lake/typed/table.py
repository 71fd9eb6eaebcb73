"""The table of a subject: one schema for all its versions, with stable field ids. Pure.

The rules, which every reader computes alike from the versions alone:

* Columns are in the order in which they first appear: those of the first version as declared, then
  those that later versions add. A dropped field stays a column.
* A field is the same column as before if it has the same name (Protobuf: the same number), or one
  of its Avro aliases is that name; a renamed column has its newest name.
* Types widen as Iceberg allows: int to long, float to double, a decimal to more digits with the
  same scale. Structs, lists and maps widen within. With any other type a field becomes a second
  column, named ``<name>_<kind>``; the first one keeps its name.
* Names are unique regardless of case, as Spark and Athena require: a later one gets a suffix.
* A record of a version that lacks a column has the default of the newest version that has it, if
  there is one of at most 1,000 bytes, and null otherwise.
* A record that names no version is read as the newest one; JSON also with the fields that only
  former versions have, because an older producer may have written it.
* At most 2,000 columns, nested ones included; a field beyond is only in the payload.

**Field ids** are hashes of the column's place and kind: of the parent's id, the name or number with
which it first appeared, and whether it is an integer, a floating-point number, a text and so on. So
they do not change if versions are deleted, and two clusters with the same schemas have the same
ids. If two columns had the same, the later one gets the next free id.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa

from sulina.errors import NotFound
from sulina.lake.schema import with_id
from sulina.lake.typed.schema_version import TYPED, SchemaVersion
from sulina.lake.typed.shapes import BARE, MISSING, Shape, ShapeField
from sulina.lake.typed.shapes import arrow_type as simple_type
from sulina.lake.typed.versions import ParsedVersion, parse

MAX_COLUMNS: Final = 2_000
_MAX_DEFAULT: Final = 1_000
FIRST_FIELD_ID: Final = 1_000
"""Ids below are those of the record's own columns, see ``sulina.lake.schema``."""
_IDS: Final = 1 << 30
_WIDER: Final = {("int", "long"): "long", ("float", "double"): "double"}
_CHILDREN: Final = {"struct": 1, "list": 1, "map": 2}
"""How many children a column needs; for lack of room, it may have fewer, and is left out."""
_FAMILIES: Final = {"int": "integer", "long": "integer", "float": "floating", "double": "floating"}

Binding = tuple[tuple[int, "Binding"], ...]
"""The column ids of a version's fields, in their order; 0 for a field that has no column."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, or one within it."""

    id: int
    name: str
    kind: str
    """As in ``shapes``."""
    children: tuple[Column, ...] = ()
    """The fields of a struct, the element of a list, the key and the value of a map."""
    precision: int = 0
    scale: int = 0
    default: Any = field(default=MISSING, compare=False)
    """For records of versions that lack it; ``MISSING`` if there is none."""

    @property
    def arrow_type(self) -> pa.DataType:
        """With the field ids of what is within."""
        inner = [each.arrow_field for each in self.children]
        if self.kind == "struct":
            return pa.struct(inner)
        if self.kind == "list":
            return pa.list_(inner[0])
        if self.kind == "map":
            return pa.map_(inner[0].with_nullable(False), inner[1])
        return simple_type(Shape(self.kind, precision=self.precision, scale=self.scale))

    @property
    def arrow_field(self) -> pa.Field:
        """With the field id, which Parquet's writer stores."""
        return with_id(pa.field(self.name, self.arrow_type), self.id)

    @property
    def leaves(self) -> int:
        """How many columns of values this is in a file."""
        return sum(each.leaves for each in self.children) if self.children else 1


@dataclass(frozen=True, slots=True)
class BoundVersion:
    """A version, and to which columns its fields belong."""

    parsed: ParsedVersion
    binding: Binding

    @property
    def version(self) -> SchemaVersion:
        return self.parsed.version


@dataclass(frozen=True, slots=True)
class TableSchema:
    """The columns of ``value``, and the versions whose records it can hold, the newest last."""

    columns: tuple[Column, ...]
    versions: tuple[BoundVersion, ...]
    nameless: BoundVersion
    """What reads the records that name none of the versions."""

    @property
    def arrow_type(self) -> pa.DataType:
        """The struct ``value``, with field ids."""
        return pa.struct([each.arrow_field for each in self.columns])

    @property
    def leaves(self) -> int:
        return sum(each.leaves for each in self.columns)

    def as_of(self, number: int) -> TableSchema:
        """The table as version ``number`` declares it: its columns in its order, with the same ids.

        Records of other versions are read into these columns. Raises ``NotFound``.
        """
        for each in self.versions:
            if each.version.number == number:
                shape = each.parsed.shape
                by_id = {column.id: column for column in _walk(self.columns)}
                columns = _declared(shape.fields, each.binding, by_id)
                return TableSchema(columns, self.versions, each)
        known = ", ".join(str(each.version.number) for each in self.versions)
        raise NotFound(f"the schema has no version {number}: choose from {known}")


def table_schema(versions: Sequence[SchemaVersion]) -> TableSchema | None:
    """The table of these versions of a subject, in any order; None if none of them has columns.

    Raises ``Refused`` if a definition is damaged.
    """
    table = _Builder()
    wanted = sorted((each for each in versions if each.type in TYPED), key=lambda each: each.number)
    if not wanted:
        return None
    bound = []
    for version in wanted:
        parsed = parse(version)
        bound.append(BoundVersion(parsed, table.add(parsed.shape)))
    return TableSchema(table.columns(), tuple(bound), _nameless(bound))


def _nameless(versions: Sequence[BoundVersion]) -> BoundVersion:
    """The newest version; of JSON, which names its fields, with those that it no longer has."""
    newest = versions[-1]
    fields, binding = newest.parsed.shape.fields, newest.binding
    if newest.parsed.schema is None and newest.parsed.shape.wire != BARE:
        for each in reversed(versions[:-1]):
            if each.parsed.schema is None and each.parsed.shape.wire != BARE:
                fields, binding = _with_former(
                    fields, binding, each.parsed.shape.fields, each.binding
                )
    if fields == newest.parsed.shape.fields:
        return newest
    shape = replace(newest.parsed.shape, fields=fields)
    return BoundVersion(replace(newest.parsed, shape=shape), binding)


def _with_former(
    fields: tuple[ShapeField, ...],
    binding: Binding,
    former: tuple[ShapeField, ...],
    former_binding: Binding,
) -> tuple[tuple[ShapeField, ...], Binding]:
    """``fields``, then those of ``former`` that have another name; structs likewise."""
    found = {each.name: (each, bound) for each, bound in zip(fields, binding, strict=True)}
    for old, old_bound in zip(former, former_binding, strict=True):
        if old.name not in found and old_bound[0]:
            found[old.name] = (old, old_bound)
        elif old.name in found and found[old.name][1][0] == old_bound[0]:
            new, (id_, inner) = found[old.name]
            if new.shape.kind == "struct":
                within, inner = _with_former(
                    new.shape.fields, inner, old.shape.fields, old_bound[1]
                )
                new = replace(new, shape=replace(new.shape, fields=within))
                found[old.name] = (new, (id_, inner))
    return tuple(each for each, _ in found.values()), tuple(bound for _, bound in found.values())


@dataclass(slots=True, eq=False)
class _Node:
    """A column while the table is built."""

    id: int
    name: str
    """As in the newest version that has it."""
    number: int
    kind: str
    precision: int
    scale: int
    default: Any = MISSING
    children: list[_Node] = field(default_factory=list)
    seen: int = -1
    """The version that had it last."""


class _Builder:
    def __init__(self) -> None:
        self._top: list[_Node] = []
        self._ids: set[int] = set()
        self._version = -1

    def add(self, shape: Shape) -> Binding:
        """Add the next version's fields."""
        self._version += 1
        return self._merge_fields(self._top, 0, shape.fields)

    def columns(self) -> tuple[Column, ...]:
        return _columns(self._top)

    def _merge_fields(
        self, nodes: list[_Node], parent: int, fields: Sequence[ShapeField]
    ) -> Binding:
        found: list[tuple[int, Binding]] = []
        for each in fields:
            node = self._find(nodes, each)
            if node is None:
                key = f"#{each.number}" if each.number else each.name
                node = self._create(nodes, parent, key, each.name, each.shape)
                if node is None:
                    found.append((0, ()))
                    continue
                node.number = each.number
            node.name = each.name
            node.default = each.default if _is_small(each.default) else MISSING
            found.append((node.id, self._join(node, each.shape)))
        return tuple(found)

    def _find(self, nodes: Sequence[_Node], wanted: ShapeField) -> _Node | None:
        def matches(node: _Node, name: str) -> bool:
            if node.seen == self._version or not _can_join(node, wanted.shape):
                return False
            if node.number and wanted.number:
                return node.number == wanted.number
            return node.name == name

        for name in (wanted.name, *wanted.aliases):
            for node in nodes:
                if matches(node, name):
                    return node
        return None

    def _create(
        self, nodes: list[_Node], parent: int, key: str, name: str, shape: Shape
    ) -> _Node | None:
        if len(self._ids) >= MAX_COLUMNS:
            return None
        text = f"{parent}\0{key}\0{_family(shape)}"
        number = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") % _IDS
        while FIRST_FIELD_ID + number in self._ids:
            number = (number + 1) % _IDS
        id_ = FIRST_FIELD_ID + number
        self._ids.add(id_)
        node = _Node(id_, name, 0, shape.kind, shape.precision, shape.scale)
        nodes.append(node)
        return node

    def _join(self, node: _Node, shape: Shape) -> Binding:
        """Widen ``node`` so that it holds values of ``shape``."""
        node.seen = self._version
        pair = (node.kind, shape.kind)
        node.kind = _WIDER.get(pair) or node.kind
        node.precision = max(node.precision, shape.precision)
        if shape.kind == "struct":
            return self._merge_fields(node.children, node.id, shape.fields)
        found: list[tuple[int, Binding]] = []
        for place, inner in enumerate(shape.inner):
            name = {"list": ("element",), "map": ("key", "value")}[shape.kind][place]
            child = (
                node.children[place]
                if place < len(node.children)
                else self._create(node.children, node.id, name, name, inner)
            )
            if child is None:
                return ()
            found.append((child.id, self._join(child, inner)))
        return tuple(found)


def _can_join(node: _Node, shape: Shape) -> bool:
    if node.kind in ("list", "map") and node.kind == shape.kind:
        inner = shape.inner
        if node.kind == "map" and node.children and node.children[0].kind != inner[0].kind:
            return False
        return all(
            _can_join(child, each) for child, each in zip(node.children, inner, strict=False)
        )
    if node.kind == shape.kind:
        return node.kind != "decimal" or node.scale == shape.scale
    return (node.kind, shape.kind) in _WIDER or (shape.kind, node.kind) in _WIDER


def _family(shape: Shape) -> str:
    """What a column keeps when it widens."""
    if shape.kind == "decimal":
        return f"decimal,{shape.scale}"
    if shape.kind in ("list", "map"):
        return f"{shape.kind}<{','.join(map(_family, shape.inner))}>"
    return _FAMILIES.get(shape.kind, shape.kind)


def _columns(nodes: Sequence[_Node]) -> tuple[Column, ...]:
    """The columns of ``nodes``, with unique names."""
    taken: set[str] = set()
    found = []
    for node in nodes:
        name, suffix = node.name, 1
        while name.casefold() in taken:
            name = f"{node.name}_{node.kind}" if suffix == 1 else f"{node.name}_{suffix}"
            suffix += 1
        taken.add(name.casefold())
        inner = _columns(node.children)
        if len(inner) >= _CHILDREN.get(node.kind, 0):
            column = Column(
                node.id, name, node.kind, inner, node.precision, node.scale, node.default
            )
            found.append(column)
    return tuple(found)


def _declared(
    fields: Sequence[ShapeField], binding: Binding, by_id: dict[int, Column]
) -> tuple[Column, ...]:
    """The columns of one version, as it declares them."""
    found = []
    for each, (id_, inner) in zip(fields, binding, strict=True):
        if id_ in by_id:
            default = each.default if _is_small(each.default) else MISSING
            column = replace(by_id[id_], name=each.name, default=default)
            found.append(_declared_column(column, each.shape, inner, by_id))
    return tuple(found)


def _declared_column(
    column: Column, shape: Shape, binding: Binding, by_id: dict[int, Column]
) -> Column:
    if shape.kind == "struct":
        children = _declared(shape.fields, binding, by_id)
    else:
        inner = zip(column.children, shape.inner, binding, strict=True) if binding else ()
        children = tuple(
            _declared_column(child, each, rest, by_id) for child, each, (_, rest) in inner
        )
    return replace(
        column,
        kind=shape.kind,
        precision=shape.precision,
        scale=shape.scale,
        children=children,
    )


def _walk(columns: Sequence[Column]) -> Iterator[Column]:
    for each in columns:
        yield each
        yield from _walk(each.children)


def _is_small(default: Any) -> bool:
    return default is MISSING or len(repr(default)) <= _MAX_DEFAULT
