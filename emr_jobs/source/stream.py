"""``spark.readStream.format("sulina")``: batches of records by offset, each read exactly once.

Spark keeps the positions in its checkpoint and asks for batches from one to another. Versions 4.0
and 4.1 do not say where a restarted stream stands when they ask how far it may go; they plan a
batch first, and the position is learned there. From 4.2 on they say it. Either way a limit on the
size of a batch counts from the position that Spark has, and no record is read twice.
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
from emr_jobs.source.objects import Candidate, TopicPartition, candidates, footers, list_parts
from emr_jobs.source.options import Bounds, ReadOptions
from emr_jobs.source.payloads import Decoder
from emr_jobs.source.planning import plan
from emr_jobs.source.positions import (
    Positions,
    Range,
    follow,
    from_json,
    from_text,
    limited,
    to_json,
)
from emr_jobs.source.reading import gap_error
from emr_jobs.source.storage import Found, Storage
from emr_jobs.source.times import first_offset_at
from sulina.runtime.real_clock import RealClock

_FOOTERS_KEPT: Final = 10_000

Parts = dict[TopicPartition, list[Found]]


def _available_now() -> type:
    """What marks a reader that knows the trigger AvailableNow: from 4.2 on."""
    try:
        limits = importlib.import_module("pyspark.sql.streaming.datasource")
    except ImportError:
        return object
    found: type = limits.SupportsTriggerAvailableNow
    return found


class StreamReader(DataSourceStreamReader, _available_now()):  # type: ignore[misc]
    """Lives on the driver as long as the query; copies of it read in the tasks."""

    def __init__(self, options: ReadOptions, schema: StructType, decoder: Decoder | None) -> None:
        self._options = options
        self._schema = schema
        self._decoder = decoder
        self._storage: Storage | None = None
        self._clock = RealClock()
        self._known: Positions = {}
        """How far batches were planned, as far as this process saw it."""
        self._target: Positions | None = None
        """How far the trigger AvailableNow goes."""
        self._start: Positions | None = None
        self._footers: OrderedDict[str, Footer] = OrderedDict()

    # ---- asked by Spark, on the driver ----

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name
        """Where a new stream begins, as the options startOffset and startTime say."""
        return to_json(self._initial())

    def latestOffset(  # noqa: N802 - Spark's name
        self, start: dict[str, Any] | None = None, limit: Any = None
    ) -> dict[str, Any]:
        """How far the next batch goes. Raises ``Refused`` if it would begin with a gap."""
        # 4.0 asks this of a new stream before it asks where that begins.
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
        """The option maxRecordsPerTrigger, as Spark's own limit."""
        limits = importlib.import_module("pyspark.sql.streaming.datasource")
        most = self._options.max_records
        return limits.ReadMaxRows(most) if most else limits.ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's name, from 4.2 on
        """From now on the stream ends where the objects end now."""
        self._target = {
            part: self._footer(objects[-1]).summary.last_offset + 1
            for part, objects in self._list().items()
        }

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """The tasks of a batch. Raises ``Refused`` if records of it are missing."""
        starts, ends = from_json(start), from_json(end)
        # The first call after a restart: this is where the position is learned again.
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
        # Bounds of offsets are in the slices; a time is where a new stream begins, and only that.
        return [SlicesPartition(tuple(each), Bounds()) for each in planned]

    def commit(self, end: dict[str, Any]) -> None:
        """Nothing to do: positions are Spark's."""

    def stop(self) -> None:
        """Nothing to close: a storage holds no connection of its own."""

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

    def _store(self) -> Storage:
        if self._storage is None:
            self._storage = Storage(self._options.place)
        return self._storage

    def _initial(self) -> Positions:
        """Found once: the end of a topic, for one, moves while the first batch is made."""
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

    def _begin(self, objects: list[Found]) -> int:
        """Where a new stream begins in a topic partition."""
        options = self._options
        if options.bounds.start_time:
            time = options.bounds.start_time
            return first_offset_at(self._store(), objects, time, options.clock_skew)
        if options.stream_start == "latest":
            return self._footer(objects[-1]).summary.last_offset + 1
        return max(options.bounds.start_offset, _first(objects))

    def _ranges(self, known: Positions) -> list[Range]:
        ranges = []
        for part, objects in self._list().items():
            # A topic partition that came later is read from its beginning.
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
                ranges.append(Range(part, first, end))
        return ranges

    def _is_young(self, found: Found, now_us: int) -> bool:
        return now_us - found.modified_us < self._options.gap_seconds * 1_000_000

    def _slices(
        self, part: TopicPartition, objects: list[Found], start: int, end: int
    ) -> list[tuple[Candidate, int, int]]:
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

    def _footer(self, found: Found) -> Footer:
        footer = self._footers.get(found.key)
        if footer is None:
            footer = read_footer(self._store(), found)
            self._keep(found, footer)
        return footer

    def _learn(self, objects: list[Found]) -> None:
        """Read the footers that are not known yet, several at a time."""
        new = [each for each in objects if each.key not in self._footers]
        for found, footer in zip(new, footers(self._store(), new), strict=True):
            self._keep(found, footer)

    def _keep(self, found: Found, footer: Footer) -> None:
        self._footers[found.key] = footer
        while len(self._footers) > _FOOTERS_KEPT:
            self._footers.popitem(last=False)


def _first(objects: list[Found]) -> int:
    return objects[0].name.first_offset if objects else 0
