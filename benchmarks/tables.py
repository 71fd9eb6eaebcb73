"""``python -m benchmarks.tables``: how long a commit to a topic's Iceberg table takes as it grows.

Makes a lake in a folder with a SQLite catalog, and commits its objects in as many commits as the
table shall have snapshots. At each stage, single objects are added one by one, as they arrive from
brokers: each time the topic is listed, the table is read, and one object is committed.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median, quantiles

from rich.console import Console

from benchmarks.lake import KINDS, make_frames
from benchmarks.program import OutputOptions, data_folder, option, parse, table_of, write_document
from sulina.lake.encoder import LedgerEncoder
from sulina.lake.layout import object_key
from sulina.lake.summary import ObjectHead
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.objects import Lake, LakePlace
from sulina.tables.tables import Tables
from sulina.wire.header import assign

GOAL_SECONDS = 1.0
"""For one object, at the last stage."""
_TOPIC = TopicName.parse("/default/orders")


@dataclass(frozen=True, slots=True)
class TableOptions(OutputOptions):
    """The command line's options."""

    objects: int = option(10_000, "objects that the table has at the last stage")
    snapshots: int = option(1_000, "snapshots that it has then")
    stages: int = option(4, "how many times commits are measured on the way")
    commits: int = option(20, "commits of one object each, per stage")
    data: Path = option(Path("/tmp"), "where to make the lake")  # noqa: RUF009


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """The commits of one object each, at one stage."""

    objects: int
    snapshots: int
    p50: float
    """Seconds."""
    p95: float
    slowest: float
    cpu: float
    """Seconds of CPU time, the median."""
    metadata_bytes: int


class _GrowingLake:
    """A topic whose objects are equal but for their offsets."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._frame = make_frames(KINDS[0], 1)[0]
        self.objects = 0

    def add(self, count: int) -> None:
        """``count`` more objects of a thousand records."""
        for number in range(self.objects, self.objects + count):
            first, frame = number * KINDS[0].records, bytearray(self._frame)
            assign(frame, first, 1)
            encoder = LedgerEncoder(ObjectHead(_TOPIC, number + 1, first))
            chunks = encoder.add([bytes(frame)])
            path = self._folder / object_key(_TOPIC, first, number + 1)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"".join([*chunks, *encoder.finish()[0]]))
        self.objects += count


def main() -> int:
    """Run the benchmark; exits with 1 if the last stage misses its goal."""
    options = parse(TableOptions, "tables", __doc__, None)
    console = Console(stderr=options.json)
    with data_folder(options.data, "tables") as folder:
        found = measure(folder, options)
    table = table_of(
        "commits of one object",
        *("objects", "snapshots", "p50", "p95", "slowest", "CPU", "metadata"),
        left=0,
    )
    for each in found:
        times = (f"{value:.3f} s" for value in (each.p50, each.p95, each.slowest, each.cpu))
        size = f"{each.metadata_bytes / 1e6:.2f} MB"
        table.add_row(f"{each.objects:,}", f"{each.snapshots:,}", *times, size)
    console.print(table)
    document = json.dumps([asdict(each) for each in found], indent=1)
    write_document(document, options.out / "tables.json", show=options.json)
    return 0 if found[-1].p50 < GOAL_SECONDS else 1


def measure(folder: Path, options: TableOptions) -> list[CommitTimes]:
    """The times at each stage."""
    place = LakePlace.parse(str(folder / "lake"))
    lake = _GrowingLake(folder / "lake")
    url = f"sqlite:///{folder}/catalog.db"
    tables = Tables(Lake(place), open_catalog(url, place))
    found: list[CommitTimes] = []
    for stage in range(1, options.stages + 1):
        objects = options.objects * stage // options.stages
        snapshots = options.snapshots * stage // options.stages
        before = tables.describe(_TOPIC).snapshots if found else 0
        commits = max(snapshots - options.commits - before, 1)
        missing = objects - options.commits - lake.objects
        for number in range(commits):
            lake.add(missing * (number + 1) // commits - missing * number // commits)
            tables.backfill(_TOPIC)
        found.append(_measure_stage(tables, lake, options.commits))
    return found


def _measure_stage(tables: Tables, lake: _GrowingLake, commits: int) -> CommitTimes:
    wall, cpu = [], []
    for _ in range(commits):
        lake.add(1)
        start, busy = time.perf_counter(), time.process_time()
        tables.backfill(_TOPIC)
        wall.append(time.perf_counter() - start)
        cpu.append(time.process_time() - busy)
    state = tables.describe(_TOPIC)
    return CommitTimes(
        state.objects,
        state.snapshots,
        median(wall),
        quantiles(wall, n=20)[-1],
        max(wall),
        median(cpu),
        Path(state.metadata.removeprefix("file://")).stat().st_size,
    )


if __name__ == "__main__":
    raise SystemExit(main())
