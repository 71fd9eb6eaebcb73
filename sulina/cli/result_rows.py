"""Prints the rows of a query batch by batch: a table for people, JSON lines or CSV for programs.

Bytes are shown as text where they are UTF-8. Others are in Base64 in JSON, under a name that ends
with ``_base64``, and in hexadecimal after ``\\x`` in tables and CSV.
"""

from __future__ import annotations

import base64
import csv
import json
import math
import sys
from collections.abc import Mapping, Sequence
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

from sulina.cli.output import echo, moment, print_table
from sulina.runtime.terminal import JSON_ESCAPES

if TYPE_CHECKING:
    import pyarrow as pa

FORMS: Final = ("table", "json", "csv")
_TIME: Final = "%Y-%m-%dT%H:%M:%SZ"


class ResultPrinter:
    """Prints batches; a table at the end, with at most ``most`` rows."""

    def __init__(self, form: str, most: int) -> None:
        self._form = form
        self._most = most
        self._names: list[str] = []
        self._rows: list[dict[str, str | None]] = []
        self._csv = csv.writer(sys.stdout, lineterminator="\n")
        self._more = False

    def take(self, batch: pa.RecordBatch) -> bool:
        """Print a batch, or keep it for the table; returns whether more can be printed."""
        if not self._names:
            self._names = batch.schema.names
            if self._form == "csv":
                self._csv.writerow(self._names)
        columns = [_values(column, cells=self._form != "json") for column in batch.columns]
        rows = list(zip(*columns, strict=True))
        if self._form == "json":
            sys.stdout.writelines(self._json(row) for row in rows)
        elif self._form == "csv":
            self._csv.writerows(rows)
        else:
            room = self._most - len(self._rows)
            self._more = len(rows) > room
            self._rows += [
                {str(place): cell(value) for place, value in enumerate(row)} for row in rows[:room]
            ]
        return not self._more

    def finish(self) -> None:
        """Print the table."""
        if self._form != "table" or not self._names:
            return
        print_table(self._rows, {str(place): name for place, name in enumerate(self._names)})
        if self._more:
            echo(f"the first {self._most:,} rows: --format csv or json prints all", err=True)

    def _json(self, row: Sequence[Any]) -> str:
        fields = dict(
            _field(name, value) if isinstance(value, bytes) else (name, value)
            for name, value in zip(self._names, row, strict=True)
        )
        text = json.dumps(fields, ensure_ascii=False)
        return text.translate(JSON_ESCAPES) + "\n"


def _values(column: pa.Array, *, cells: bool) -> list[Any]:
    """The values of a column for JSON, or for a table and CSV.

    Whole columns are converted by Arrow, which takes a small part of the time that Python takes.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return list(pc.strftime(column.cast(pa.timestamp("us", "UTC")), _TIME).to_pylist())
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        try:
            return list(column.cast(pa.large_string()).to_pylist())
        except pa.ArrowInvalid:  # not UTF-8
            values = column.to_pylist()
            return [cell(value) for value in values] if cells else values
    if pa.types.is_integer(kind) or pa.types.is_string(kind):
        return list(column.to_pylist())
    convert = cell if cells else _plain
    return [convert(value) for value in column.to_pylist(maps_as_pydicts="lossy")]


def _field(name: str, value: bytes) -> tuple[str, str]:
    text = _text(value)
    return (f"{name}_base64", _base64(value)) if text is None else (name, text)


def _fields(value: Mapping[str, Any]) -> dict[str, Any]:
    return dict(
        _field(name, each) if isinstance(each, bytes) else (str(name), _plain(each))
        for name, each in value.items()
    )


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _plain(value: Any) -> Any:
    """A value for JSON."""
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            text = _text(value)
            return _base64(value) if text is None else text
        case datetime() if value.tzinfo is not None:
            return moment(round(value.timestamp() * 1_000_000))
        case date() | time():
            return value.isoformat()
        case Mapping():
            return _fields(value)
        case list():
            return [_plain(each) for each in value]
        case _:  # decimals, intervals
            return str(value)


def cell(value: Any) -> str | None:
    """A value for a table and for CSV."""
    if isinstance(value, bytes):
        text = _text(value)
        return f"\\x{value.hex()}" if text is None else text
    plain = _plain(value)
    if plain is None or isinstance(plain, str):
        return plain
    return json.dumps(plain, ensure_ascii=False)


def _text(value: bytes) -> str | None:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None
