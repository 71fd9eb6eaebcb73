"""``spark.readStream.format("sulina")``: reads each record of a stream exactly once, by offset.

Spark stores the positions in its checkpoint and requests batches between two positions. When
versions 4.0 and 4.1 ask for the latest offset, they do not pass the position of a restarted stream;
but they plan a batch first, from which the position is known. Version 4.2 passes it. In both cases
a limit on the size of a batch counts from Spark's position.
"""

from __future__ import annotations

import importlib
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from emr_jobs.source.batch import SlicesPartition, read_partition
from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.objects import ObjectCandidate, TopicPartition, candidates, footers, list_parts
from emr_jobs.source.options import ReadBounds, ReadOptions
from emr_jobs.source.payloads import Decoder
from emr_jobs.source.planning import plan
from emr_jobs.source.positions import (
    OffsetRange,
    Positions,
    follow,
    from_json,
    from_text,
    limited,
    to_json,
)
from emr_jobs.source.reading import gap_error
from emr_jobs.source.storage import LakeObject, LakeStorage
from emr_jobs.source.times import first_offset_at
from sulina.runtime.real_clock import RealClock

_FOOTERS_KEPT: Final = 10_000

Parts = dict[TopicPartition, list[LakeObject]]


def _available_now() -> type:
    """The base class of readers that support the trigger AvailableNow, in Spark 4.2 and newer."""
    try:
        limits = importlib.import_module("pyspark.sql.streaming.datasource")
    except ImportError:
        return object
    found: type = limits.SupportsTriggerAvailableNow
    return found


class StreamReader(DataSourceStreamReader, _available_now()):  # type: ignore[misc]
    """Exists on the driver as long as the query; copies of it read in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType, decoder: Decoder | None) -> None:
        self._options = options
        self._schema = schema
        self._decoder = decoder
        self._storage: LakeStorage | None = None
        self._clock = RealClock()
        self._known: Positions = {}
        """How far this process has planned batches."""
        self._target: Positions | None = None
        """Where the trigger AvailableNow stops."""
        self._start: Positions | None = None
        self._footers: OrderedDict[str, Footer] = OrderedDict()

    # ---- called by Spark, on the driver ----

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new stream begins, according to the options startOffset and startTime."""
        return to_json(self._initial())

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """Where the next batch ends. Raises ``Refused`` if it would begin with a gap."""
        # For a new stream, Spark 4.0 calls this before initialOffset.
        known = self._known or self._initial() if start is None else from_json(start)
        most = self._options.max_records
        if limit is not None:
            most = getattr(limit, "max_rows", getattr(limit, "maxRows", 0))
        ends = dict(known)
        ends.update(limited(self._ranges(known), most))
        if self._target is not None:
            ends = {part: min(end, self._target.get(part, 0)) for part, end in ends.items()}
            ends = {part: max(end, known.get(part, 0)) for part, end in ends.items()}
        return to_json(ends)

    def getDefaultReadLimit(self) -> Any:  # noqa: N802 - Spark's name, from 4.2 on
        """The option maxRecordsPerTrigger as a Spark read limit."""
        limits = importlib.import_module("pyspark.sql.streaming.datasource")
        most = self._options.max_records
        return limits.ReadMaxRows(most) if most else limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name, from 4.2 on
        """Make the stream end where the objects end now."""
        self._target = {
            part: self._footer(objects[-1]).summary.last_offset + 1
            for part, objects in self._list().items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch. Raises ``Refused`` if records of it are missing."""
        starts, ends = from_json(start), from_json(end)
        # In the first call after a restart, this restores the position.
        self._known.update(ends)
        wanted = {part: offset for part, offset in ends.items() if offset > starts.get(part, 0)}
        if not wanted:
            return []
        parts = self._list()
        slices = []
        for part, stop in wanted.items():
            objects = parts.get(part, [])
            begin = starts[part] if part in starts else _first(objects)
            slices += self._slices(part, objects, begin, stop)
        planned = plan(slices, self._options.partition_bytes, lambda each: self._footer(each.found))
        # The slices contain the offsets; a start time only applies to the start of a new stream.
        return [SlicesPartition(tuple(each), ReadBounds()) for each in planned]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: Spark stores the positions."""

    def stop(self) -> None:
        """Nothing to close: a storage has no connection of its own."""

    # ---- in the tasks ----

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, SlicesPartition)
        return read_partition(self._options, self._schema, self._decoder, partition)

    def __getstate__(self) -> dict[str, Any]:
        # Open files and footers stay on the driver.
        return {**self.__dict__, "_storage": None, "_footers": OrderedDict()}

    # ---- details ----

    def _list(self) -> Parts:
        return list_parts(self._store(), self._options.topics)

    def _store(self) -> LakeStorage:
        if self._storage is None:
            self._storage = LakeStorage(self._options.location)
        return self._storage

    def _initial(self) -> Positions:
        """Computed once, because the end of a topic moves while the first batch is planned."""
        if self._start is None:
            text = self._options.stream_start
            given = from_text(text) if text.startswith("{") else {}
            found = {
                part: self._begin(objects)
                for part, objects in self._list().items()
                if part not in given
            }
            self._start = {**given, **found}
        return self._start

    def _begin(self, objects: list[LakeObject]) -> int:
        """Where a new stream begins in a topic partition."""
        options = self._options
        if options.bounds.start_time:
            time = options.bounds.start_time
            return first_offset_at(self._store(), objects, time, options.clock_skew)
        if options.stream_start == "latest":
            return self._footer(objects[-1]).summary.last_offset + 1
        return max(options.bounds.start_offset, _first(objects))

    def _ranges(self, known: Positions) -> list[OffsetRange]:
        ranges = []
        for part, objects in self._list().items():
            # A topic partition created later is read from its beginning.
            first = known[part] if part in known else _first(objects)
            chosen = [each.found for each in candidates(objects, first)]
            self._learn(chosen)
            now = self._clock.wall_us()
            end = follow(
                part,
                first,
                ((self._footer(each).summary, self._is_young(each, now)) for each in chosen),
            )
            if end > first:
                ranges.append(OffsetRange(part, first, end))
        return ranges

    def _is_young(self, found: LakeObject, now_us: int) -> bool:
        return now_us - found.modified_us < self._options.gap_seconds * 1_000_000

    def _slices(
        self, part: TopicPartition, objects: list[LakeObject], start: int, end: int
    ) -> list[tuple[ObjectCandidate, int, int]]:
        chosen = candidates(objects, start, end)
        self._learn([each.found for each in chosen])
        reached = start
        for each in chosen:
            summary = self._footer(each.found).summary
            if summary.first_offset > reached:
                raise gap_error(str(part), reached, summary.first_offset)
            reached = max(reached, summary.last_offset + 1)
        if reached < end:
            raise gap_error(str(part), reached, end)
        return [(each, start, end) for each in chosen]

    def _footer(self, found: LakeObject) -> Footer:
        footer = self._footers.get(found.key)
        if footer is None:
            footer = read_footer(self._store(), found)
            self._keep(found, footer)
        return footer

    def _learn(self, objects: list[LakeObject]) -> None:
        """Read the footers that are not cached yet, in parallel."""
        new = [each for each in objects if each.key not in self._footers]
        for found, footer in zip(new, footers(self._store(), new), strict=True):
            self._keep(found, footer)

    def _keep(self, found: LakeObject, footer: Footer) -> None:
        self._footers[found.key] = footer
        while len(self._footers) > _FOOTERS_KEPT:
            self._footers.popitem(last=False)


def _first(objects: list[LakeObject]) -> int:
    return objects[0].name.first_offset if objects else 0
