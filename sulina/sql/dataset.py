"""A topic as an Arrow dataset: its history from the lake, its tail from the brokers.

DuckDB, polars and whatever else scans Arrow datasets pass the columns and the filter of a query.
What the filter excludes by partition, offset or publish time is not opened. At most one row group
of an object, or one answer of a broker, is in memory for each scan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from sulina.errors import NotFound, Refused, SulinaError
from sulina.lake.decoder import Footer, RowGroup
from sulina.lake.layout import parse_key
from sulina.lake.schema import OFFSET, RECORD_SCHEMA, VALUE, VALUE_ERROR
from sulina.lake.typed.reading import ValueReader
from sulina.live.connection import BlockingConnection
from sulina.live.snapshot import Piece, rest_of
from sulina.sql.skipping import PARTITION, Known, possible
from sulina.tables.objects import Lake

_TYPED: Final = (VALUE, VALUE_ERROR)


@dataclass(frozen=True, slots=True)
class TopicSource:
    """The records of a topic at one moment, and what is needed to read them."""

    pieces: tuple[Piece, ...]
    values: ValueReader | None
    """None for a topic without typed columns."""
    connection: BlockingConnection
    lake: Lake | None
    """None reads everything from the brokers."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of the table: those of a record, then the typed ones."""
        fields = [pa.field(PARTITION, pa.int32(), nullable=False), *RECORD_SCHEMA]
        if self.values is not None and self.values.table is not None:
            fields.append(pa.field(VALUE, self.values.table.arrow_type))
            fields.append(pa.field(VALUE_ERROR, pa.string()))
        return pa.schema(fields)


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """Scanned any number of times, always with the same records. Scans block."""

    def __init__(self, source: TopicSource) -> None:
        # Arrow's own constructor refuses to be called; scanners only use what is defined here.
        self._source = source
        self._schema = source.schema
        self.failure: SulinaError | None = None
        """Why a scan failed: engines that scan it report only the text, within texts of theirs."""
        self.opened: list[str] = []
        """The keys of the objects that scans have opened."""

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: Any = None, **_: Any
    ) -> TopicScan:
        """A scan with these columns, or all, of the records for which ``filter`` is true."""
        return TopicScan(self, list(columns) if columns else self._schema.names, filter)

    def batches(self, names: list[str], wanted: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        """The records of a scan, by partition and offset."""
        try:
            yield from self._batches(names, wanted)
        except SulinaError as error:
            self.failure = error
            raise

    def _batches(self, names: list[str], wanted: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        needed = [*names, *(name for name in _mentioned(wanted, self._schema) if name not in names)]
        pieces = self._source.pieces
        for number in possible(self._schema, wanted, [_known(piece) for piece in pieces]):
            for batch in self._piece(pieces[number], needed, wanted):
                table = pa.Table.from_batches([batch])
                if wanted is not None:
                    table = table.filter(wanted)
                yield from table.select(names).to_batches()

    def _piece(
        self, piece: Piece, names: list[str], wanted: pc.Expression | None
    ) -> Iterator[pa.RecordBatch]:
        lake, position = self._source.lake, piece.start
        if piece.stored is not None and lake is not None:
            self.opened.append(piece.stored.key)
            # One that was merged with others or deleted is not found: the brokers know where its
            # records are.
            with suppress(NotFound), lake.open(parse_key(piece.stored.key)) as (file, footer):
                _check(piece, footer, lake)
                parquet = pq.ParquetFile(
                    file, metadata=footer.parquet, pre_buffer=not lake.place.is_folder
                )
                for end, rows in self._object(piece, parquet, footer, names, wanted):
                    yield rows
                    position = end
                return
        for rows in self._source.connection.batches(rest_of(piece, position)):
            yield self._shaped(rows, piece.partition, names)

    def _object(
        self,
        piece: Piece,
        parquet: pq.ParquetFile,
        footer: Footer,
        names: list[str],
        wanted: pc.Expression | None,
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Rows of an object, each batch with the offset after it."""
        stored = {name for name in names if name in RECORD_SCHEMA.names}
        if self._source.values is not None and not {*_TYPED}.isdisjoint(names):
            stored.update(self._source.values.columns(footer.typed))
        groups = [
            group
            for group in footer.row_groups
            if group.last_offset >= piece.start and group.first_offset < piece.end
        ]
        known = [_known_of(piece, group) for group in groups]
        for number in possible(self._schema, wanted, known):
            group = groups[number]
            whole = piece.start <= group.first_offset and group.last_offset < piece.end
            if stored or not whole:
                table = parquet.read_row_group(group.number, sorted({*stored, OFFSET}))
                if not whole:
                    table = table.filter(_within(piece))
                (rows,) = table.combine_chunks().to_batches() or [_nothing(table)]
            else:
                rows = pa.RecordBatch.from_arrays([pa.nulls(group.records)], ["none"])
            yield group.last_offset + 1, self._shaped(rows, piece.partition, names)

    def _shaped(self, rows: pa.RecordBatch, partition: int, names: list[str]) -> pa.RecordBatch:
        """The columns of the table from those of an object."""
        found: dict[str, Any] = {PARTITION: pa.repeat(pa.scalar(partition, pa.int32()), len(rows))}
        if self._source.values is not None and not {*_TYPED}.isdisjoint(names):
            typed = self._source.values.decode(rows)
            found |= {VALUE: typed.value, VALUE_ERROR: typed.error}
        fields = [self._schema.field(name) for name in names]
        columns = [
            found[field.name] if field.name in found else rows.column(field.name)
            for field in fields
        ]
        return pa.RecordBatch.from_arrays(
            [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(columns, fields, strict=True)
            ],
            schema=pa.schema(fields),
        )


def _known(piece: Piece) -> Known:
    latest = None if piece.stored is None else piece.stored.last_time_us
    return Known(piece.partition, piece.start, piece.end - 1, last_time_us=latest)


def _known_of(piece: Piece, group: RowGroup) -> Known:
    times = group.first_time_us, group.last_time_us
    return Known(piece.partition, group.first_offset, group.last_offset, *times)


def _within(piece: Piece) -> pc.Expression:
    return (ds.field(OFFSET) >= piece.start) & (ds.field(OFFSET) < piece.end)


def _nothing(table: pa.Table) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=table.schema)


def _mentioned(wanted: pc.Expression | None, schema: pa.Schema) -> list[str]:
    """The columns that a filter needs. Its text names them, and perhaps others in constants."""
    text = str(wanted) if wanted is not None else ""
    return [name for name in schema.names if re.search(rf"\b{name}\b", text)]


def _check(piece: Piece, footer: Footer, lake: Lake) -> None:
    """Raises ``Refused`` for an object that is not the one which the brokers know."""
    assert piece.stored is not None
    found = footer.summary
    if (
        str(found.topic) != piece.topic
        or found.size != piece.stored.size
        or not found.first_offset <= piece.start < piece.end <= found.last_offset + 1
    ):
        raise Refused(
            f"{piece.stored.key} in {lake.place.url} is not the object that the brokers wrote: "
            "this is the lake of another cluster, or an object was replaced"
        )


class TopicScan:
    """One scan, as engines expect it of Arrow's scanners."""

    def __init__(self, dataset: TopicDataset, names: list[str], wanted: Any) -> None:
        self._dataset = dataset
        self._names = names
        self._wanted = wanted

    @property
    def projected_schema(self) -> pa.Schema:
        return pa.schema([self._dataset.schema.field(name) for name in self._names])

    def to_reader(self) -> pa.RecordBatchReader:
        batches = self._dataset.batches(self._names, self._wanted)
        return pa.RecordBatchReader.from_batches(self.projected_schema, batches)
