"""How Parquet stores typed columns: chosen for each from the first records of an object. Pure.

A dictionary of values that hardly repeat costs time and bytes, as does storing whole numbers with
all their zeros. All readers of Parquet have known these encodings for years.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from sulina.lake.typed.table import Column

_SAMPLE: Final = 4096
"""Values of a column that are looked at."""
_REPEATED_TEXTS: Final = 0.95
"""A dictionary pays if at most this share of the texts is different: they are long."""
_REPEATED_NUMBERS: Final = 1 / 16
_TEXTS: Final = ("string", "uuid", "json", "binary")
_WHOLE: Final = ("int", "long", "date", "timestamp", "local_timestamp", "time")


@dataclass(frozen=True, slots=True)
class Encodings:
    """Columns by the names that Parquet gives them; others are stored as they are."""

    dictionaries: list[str]
    others: dict[str, str]
    """By column."""
    ordered: list[str]
    """Columns whose bounds help readers to skip."""


def encodings(columns: Sequence[Column], values: pa.StructArray, path: str) -> Encodings:
    """The encodings for ``values``, the column at ``path`` with these columns."""
    found = Encodings([], {}, [])
    for place, kind, leaf in _leaves(columns, values.slice(0, _SAMPLE), path):
        sample = leaf.slice(0, _SAMPLE).drop_null()
        if kind not in _TEXTS:
            found.ordered.append(place)
        if _repeats(sample, _REPEATED_TEXTS if kind in _TEXTS else _REPEATED_NUMBERS):
            if kind != "boolean":
                found.dictionaries.append(place)
        elif kind in _TEXTS:
            found.others[place] = "DELTA_LENGTH_BYTE_ARRAY"
        elif kind in _WHOLE:
            found.others[place] = "DELTA_BINARY_PACKED"
    return found


def _repeats(sample: pa.Array, most: float) -> bool:
    different: int = pc.count_distinct(sample).as_py()
    return different <= most * len(sample)


def _leaves(
    columns: Sequence[Column], values: pa.StructArray, path: str
) -> Iterator[tuple[str, str, pa.Array]]:
    """The columns of values: names, kinds and values, of which there may be too many."""
    for column, inside in zip(columns, values.flatten(), strict=True):
        yield from _inner(column, inside, f"{path}.{column.name}")


def _inner(column: Column, values: pa.Array, place: str) -> Iterator[tuple[str, str, pa.Array]]:
    if column.kind == "struct":
        yield from _leaves(column.children, values, place)
    elif column.kind == "list":
        yield from _inner(column.children[0], values.flatten(), f"{place}.list.element")
    elif column.kind == "map":
        parts = zip(("key", "value"), (values.keys, values.items), column.children, strict=True)
        for name, part, child in parts:
            yield from _inner(child, part, f"{place}.key_value.{name}")
    else:
        yield place, column.kind, values
