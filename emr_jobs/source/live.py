"""Live reads: a topic's objects, and from the brokers what is not in objects yet, each record once.

The brokers' list of ledgers is asked for once, on the driver, and divides the offsets of each
partition (``sulina.live.snapshot``). Tasks read objects as always, and connect to the brokers for
the rest; a task whose object is gone reads its records from them, too.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import InputPartition

from emr_jobs.brokers import make_client
from emr_jobs.source.batch import BatchReader, SlicesPartition, read_partition
from emr_jobs.source.columns import Shaper
from emr_jobs.source.footers import read_footer
from emr_jobs.source.objects import ObjectCandidate
from emr_jobs.source.options import ReadBounds, ReadOptions
from emr_jobs.source.planning import ObjectSlice, plan
from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.errors import NotFound, Refused
from sulina.lake.layout import ObjectName, parse_key
from sulina.lake.schema import PUBLISH_TIME, TIME_TYPE
from sulina.live.connection import BlockingConnection
from sulina.live.snapshot import Piece, rest_of, snapshot
from sulina.names import TopicName

_ATTEMPTS: Final = 3


@dataclass
class LivePartition(InputPartition):
    """What one task reads."""

    pieces: tuple[Piece, ...]
    bounds: ReadBounds


class LiveReader(BatchReader):
    """Plans on the driver, and reads in tasks, with the brokers."""

    def partitions(self) -> Sequence[InputPartition]:
        """Raises ``NotFound`` for a topic that does not exist, ``Unavailable`` without a broker."""
        options = self._options
        for attempt in range(_ATTEMPTS):
            pieces = _pieces(options)
            try:
                tasks = _tasks(pieces, options)
                break
            except NotFound:  # an object was replaced since the brokers named it
                if attempt == _ATTEMPTS - 1:
                    raise
        return [LivePartition(tuple(each), options.bounds) for each in tasks]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        # If there are no partitions, Spark still calls this once.
        if isinstance(partition, LivePartition):
            for piece in partition.pieces:
                yield from self._piece(piece, partition.bounds)

    def _piece(self, piece: Piece, bounds: ReadBounds) -> Iterator[Any]:
        if piece.stored is not None:
            wanted = ObjectSlice(_candidate(piece).found, piece.start, piece.end)
            part, begun = SlicesPartition((wanted,), bounds), False
            try:
                for batch in read_partition(
                    self._options, self._schema, self._decoder, part, typed_empty=True
                ):
                    begun = True
                    yield batch
                return
            except NotFound:
                if begun:
                    raise
        yield from self._from_brokers(rest_of(piece, piece.start), bounds)

    def _from_brokers(self, piece: Piece, bounds: ReadBounds) -> Iterator[Any]:
        shaper = Shaper(self._schema)
        topic = TopicName.parse(piece.topic)
        base, number = topic.partition_of or (topic, 0)
        name = ObjectName(base.namespace, base.local, number, piece.start, 0)
        with _connect(self._options) as connection:
            for batch in connection.batches(piece):
                rows = _within(batch, bounds)
                typed = None
                if shaper.wants_value and self._decoder is not None:
                    typed = self._decoder.decode(rows, topic)
                yield shaper.shape(rows, name, typed)


def _connect(options: ReadOptions) -> BlockingConnection:
    brokers = options.brokers
    assert brokers is not None, "only live reads connect"
    return BlockingConnection(make_client(brokers.url, brokers.tls, brokers.token))


def _pieces(options: ReadOptions) -> list[Piece]:
    topics = options.topics.exact
    if topics is None:
        raise Refused("a live read needs the names of its topics: it takes no pattern")
    with _connect(options) as connection:
        found = [connection.run(snapshot(connection.client, topic)) for topic in topics]
    pieces = [_bounded(piece, options) for some in found for piece in some]
    return [piece for piece in pieces if piece is not None]


def _bounded(piece: Piece, options: ReadOptions) -> Piece | None:
    """What the bounds leave of a piece, as far as it is known without reading it."""
    bounds = options.bounds
    start, end = max(piece.start, bounds.start_offset), min(piece.end, bounds.end_offset)
    late = piece.stored is not None and piece.stored.last_time_us < bounds.start_time
    if start >= end or late or not options.wants(piece.partition):
        return None
    return replace(piece, start=start, end=end)


def _tasks(pieces: Sequence[Piece], options: ReadOptions) -> Iterator[list[Piece]]:
    """Objects as other reads plan them; the records of a partition at the brokers in one task."""
    tiered = {piece.stored.key: piece for piece in pieces if piece.stored is not None}
    storage = LakeStorage(options.location)
    planned = plan(
        [(_candidate(each), each.start, each.end) for each in tiered.values()],
        options.partition_bytes,
        lambda each: read_footer(storage, each.found),
    )
    for slices in planned:
        yield [replace(tiered[each.found.key], start=each.start, end=each.end) for each in slices]
    for piece in pieces:
        if piece.stored is None:
            yield [piece]


def _candidate(piece: Piece) -> ObjectCandidate:
    assert piece.stored is not None
    return ObjectCandidate(LakeObject(parse_key(piece.stored.key), piece.stored.size), None)


def _within(rows: pa.RecordBatch, bounds: ReadBounds) -> pa.RecordBatch:
    if not bounds.by_time:
        return rows
    times = rows.column(PUBLISH_TIME)
    first, end = (pa.scalar(each, TIME_TYPE) for each in (bounds.start_time, bounds.end_time))
    return rows.filter(pc.and_(pc.greater_equal(times, first), pc.less(times, end)))
