"""``python -m benchmarks.spark``: the data source compared with Spark's own Parquet reader.

Both read the same objects in the same session, in turns. Scans of all columns go to Spark's
``noop`` sink, which reads every row and stores none. The floor is the time that Spark takes for a
Python data source that has its batches in memory. Then it measures counts from metadata, and
listing, planning and counting a topic of very many small ledgers. With ``--iceberg`` it compares
an Iceberg table over the objects with native Parquet instead. All data is in a temporary folder.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console

import emr_jobs
from benchmarks.program import option, parse, table_of
from benchmarks.spark_floor import FloorSource, write_batches
from emr_jobs.java import prepare_java
from emr_jobs.source.datasource import SulinaDataSource
from sulina.lake.encoder import LedgerEncoder
from sulina.lake.layout import object_key
from sulina.lake.summary import ObjectHead
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.objects import Lake, LakePlace
from sulina.tables.tables import Tables
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign

GOAL_RATIO = 1.5
"""The maximum ratio of the data source's time to that of native Parquet."""
GOAL_TABLE_RATIO = 1.1
"""The same of an Iceberg table, for a group-by."""
GOAL_SECONDS = 10.0
"""The maximum time to list and plan 10,000 small ledgers."""
LARGE = TopicName("default", "large")
SMALL = TopicName("default", "small")
_WARM = 5
"""Turns that do not count, in which workers start and Java compiles its code."""
_FRAME = 1000
_PAYLOADS = 20_000
_KEYS = 5_000
_START_US = 1_750_000_000_000_000


@dataclass(frozen=True, slots=True)
class QueryTimes:
    """The seconds of one query per reader: the median of all repetitions."""

    name: str
    ours: float
    native: float
    ratio: float
    """The median of the turns' ratios, because a busy machine slows both readers."""
    floor: float | None
    """The time of a data source that has all batches in memory."""
    goal: float | None

    @classmethod
    def of(
        cls, name: str, seconds: Mapping[str, Sequence[float]], goal: float | None
    ) -> QueryTimes:
        """From the seconds of each turn and reader."""
        middle = {way: statistics.median(values) for way, values in seconds.items()}
        turns = zip(seconds["ours"], seconds["native"], strict=True)
        ratio = statistics.median(ours / native for ours, native in turns)
        return cls(name, middle["ours"], middle["native"], ratio, middle.get("floor"), goal)


@dataclass(frozen=True, slots=True)
class SparkBenchmarkOptions:
    """The command line's options."""

    records: int = option(5_000_000, "number of records")
    size: int = option(200, "bytes per payload")
    ledgers: int = option(32, "number of ledgers")
    small: int = option(10_000, "number of small ledgers")
    repeat: int = option(5, "number of turns that count")
    cores: int = option(2, "number of cores for Spark")
    iceberg: str = option("", "Iceberg's runtime for Spark, a jar: measures a table")
    json: bool = option(False, "print the result as JSON")


def main() -> int:
    """Run the benchmark. Returns the exit code."""
    options = parse(SparkBenchmarkOptions, "spark", __doc__, None)
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    say = Console(stderr=True).print
    with tempfile.TemporaryDirectory(prefix="sulina-spark-") as name:
        folder = Path(name)
        say(f"writing {options.records:,} records of {options.size} B in {options.ledgers} ledgers")
        stored = write_large(folder / "lake", options)
        if options.iceberg:
            return _measure_table(folder, options)
        say(f"writing {options.small:,} small ledgers")
        write_small(folder / "lake", options.small)
        say("starting Spark")
        spark = _session(folder, options.cores)
        try:
            pairs = compare(spark, folder, options.repeat)
            counts = count_both(spark, folder / "lake")
        finally:
            spark.stop()
        small = plan_small(folder / "lake")
    result = {
        "options": asdict(options),
        "object_bytes": stored,
        "pairs": [asdict(each) for each in pairs],
        **counts,
        "small_seconds": small,
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        _show(pairs, counts, small, options)
    return 0


def _measure_table(folder: Path, options: SparkBenchmarkOptions) -> int:
    spark = _session(folder, options.cores, options.iceberg)
    try:
        found = compare_table(spark, folder, options.repeat)
    finally:
        spark.stop()
    if options.json:
        print(json.dumps(asdict(found), indent=2))
    else:
        met = "met" if found.ratio <= GOAL_TABLE_RATIO else "missed"
        Console().print(
            f"group by key of {options.records:,} records: {found.ours:.2f} s over an Iceberg "
            f"table, {found.native:.2f} s over native Parquet, ratio {found.ratio:.2f} "
            f"(goal {GOAL_TABLE_RATIO:g}, {met})"
        )
    return 0


# ---- data ----


def write_large(lake: Path, options: SparkBenchmarkOptions) -> int:
    """Write ledgers of JSON with keys; returns the size of their objects."""
    random = Random(7)
    payloads = [_payload(random, options.size) for _ in range(_PAYLOADS)]
    keys = [b"customer-%d" % random.randrange(_KEYS) for _ in range(_PAYLOADS)]
    each = -(-options.records // options.ledgers)
    return sum(
        _write(lake, LARGE, number, first, min(each, options.records - first), payloads, keys)
        for number, first in enumerate(range(0, options.records, each))
    )


def write_small(lake: Path, count: int) -> None:
    """Write ledgers of ten records each."""
    payloads = [b'{"id": %d}' % number for number in range(100)]
    for number in range(count):
        _write(lake, SMALL, 1_000_000 + number, number * 10, 10, payloads, payloads)


def _write(
    lake: Path,
    topic: TopicName,
    ledger: int,
    first: int,
    count: int,
    payloads: list[bytes],
    keys: list[bytes],
) -> int:
    encoder = LedgerEncoder(ObjectHead(topic, ledger, first))
    path = lake / object_key(topic, first, ledger)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        for start in range(first, first + count, _FRAME):
            size = min(_FRAME, first + count - start)
            at = start % (_PAYLOADS - _FRAME) if len(payloads) > _FRAME else 0
            frame = bytearray(
                encode_frame(
                    Origin(f"producer-{start // _FRAME % 4}"),
                    start,
                    payloads[at : at + size],
                    _START_US + start,
                    keys=keys[at : at + size],
                )
            )
            assign(frame, start, 1)
            file.writelines(encoder.add([bytes(frame)]))
        chunks, summary = encoder.finish()
        file.writelines(chunks)
    return summary.size


def _payload(random: Random, size: int) -> bytes:
    text = json.dumps(
        {
            "order": random.randrange(10**9),
            "customer": random.randrange(_KEYS),
            "amount": round(random.random() * 1000, 2),
            "status": random.choice(("new", "paid", "sent", "done")),
        }
    ).encode()
    fill = random.randbytes(size)[: max(size - len(text) - 2, 0) // 2].hex().encode()
    return (text + fill)[:size].ljust(size)


# ---- measurements ----


def compare(spark: SparkSession, folder: Path, repeat: int) -> list[QueryTimes]:
    """Run each query with each reader, in turns."""
    lake, batches = folder / "lake", folder / "batches"
    write_batches(batches, _options(lake, LARGE))
    ready = spark.read.format("floor").load(str(batches))
    queries: list[tuple[str, str, Callable[[DataFrame], Any], float | None]] = [
        ("all columns", "", _take_all, GOAL_RATIO),
        # Spark tells only its own readers which columns a query needs.
        ("group by key, columns named", "key,payload", _group, GOAL_RATIO),
        ("group by key", "", _group, None),
        ("sum of one column, named", "offset", _sum, None),
    ]
    pairs = []
    for name, columns, query, goal in queries:
        ways: dict[str, Callable[[], DataFrame]] = {
            "ours": partial(_ours, spark, lake, columns),
            "native": partial(_native, spark, lake, columns),
        }
        if not columns:
            ways["floor"] = lambda: ready
        pairs.append(QueryTimes.of(name, _in_turns(ways, query, repeat), goal))
    return pairs


def compare_table(spark: SparkSession, folder: Path, repeat: int) -> QueryTimes:
    """A group-by over an Iceberg table of the objects, in the column ``ours``."""
    lake = folder / "lake"
    place = LakePlace.parse(str(lake))
    tables = Tables(Lake(place), open_catalog(f"sqlite:///{folder}/catalog.db", place))
    tables.backfill(LARGE)
    metadata = tables.describe(LARGE).metadata
    ways: dict[str, Callable[[], DataFrame]] = {
        "ours": lambda: spark.read.format("iceberg").load(metadata),
        "native": partial(_native, spark, lake, ""),
    }
    seconds = _in_turns(ways, _group, repeat)
    return QueryTimes.of("group by key, Iceberg table", seconds, GOAL_TABLE_RATIO)


def _in_turns(
    ways: Mapping[str, Callable[[], DataFrame]], query: Callable[[DataFrame], Any], repeat: int
) -> dict[str, list[float]]:
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    for turn in range(_WARM + repeat):
        for way, load in ways.items():
            frame = load()
            began = time.perf_counter()
            query(frame)
            if turn >= _WARM:
                seconds[way].append(time.perf_counter() - began)
    return seconds


def count_both(spark: SparkSession, lake: Path) -> dict[str, Any]:
    """Count from metadata, with the data source and with Spark."""
    found, ours = _timed(lambda: emr_jobs.count(**_options(lake, LARGE)))
    same, native = _timed(lambda: _native(spark, lake, "").count())
    assert found == same, (found, same)
    return {"records": found, "count_seconds": ours, "native_count_seconds": native}


def plan_small(lake: Path) -> dict[str, float]:
    """The time to plan a read of very many small ledgers."""
    source = SulinaDataSource(_options(lake, SMALL))
    schema = source.schema()
    timed = SulinaDataSource({**_options(lake, SMALL), "startTime": str(_START_US / 1e6 + 0.01)})
    return {
        "plan": _timed(lambda: source.reader(schema).partitions())[1],
        "plan by time": _timed(lambda: timed.reader(schema).partitions())[1],
        "first batch of a stream": _timed(lambda: source.streamReader(schema).latestOffset())[1],
        "count": _timed(lambda: emr_jobs.count(**_options(lake, SMALL)))[1],
    }


def _take_all(frame: DataFrame) -> None:
    frame.write.format("noop").mode("overwrite").save()


def _group(frame: DataFrame) -> None:
    from pyspark.sql import functions as f

    grouped = frame.groupBy("key").agg(f.count(f.lit(1)), f.sum(f.octet_length("payload")))
    grouped.write.format("noop").mode("overwrite").save()


def _sum(frame: DataFrame) -> None:
    frame.selectExpr("sum(offset)").collect()


def _ours(spark: SparkSession, lake: Path, columns: str) -> DataFrame:
    options = _options(lake, LARGE, columns)
    return spark.read.format("sulina").options(**options).load()


def _native(spark: SparkSession, lake: Path, columns: str) -> DataFrame:
    return emr_jobs.native(spark, **_options(lake, LARGE, columns))


def _options(lake: Path, topic: TopicName, columns: str = "") -> dict[str, str]:
    found = {"path": str(lake), "topic": str(topic)}
    return {**found, "columns": columns} if columns else found


def _timed(call: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = call()
    return found, time.perf_counter() - began


def _session(folder: Path, cores: int, jar: str = "") -> SparkSession:
    session = (
        SparkSession.builder.master(f"local[{cores}]")
        .config("spark.jars", jar)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "4g")
        .config("spark.sql.shuffle.partitions", str(cores))
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder))
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    emr_jobs.register(session)
    session.dataSource.register(FloorSource)
    return session


# ---- report ----


def _show(
    pairs: Sequence[QueryTimes],
    counts: dict[str, Any],
    small: dict[str, float],
    options: SparkBenchmarkOptions,
) -> None:
    console = Console()
    table = table_of(
        f"{options.records:,} records of {options.size} B, {options.cores} cores",
        *("query", "sulina s", "native Parquet s", "ratio", "goal", "floor s"),
    )
    for each in pairs:
        met = "met" if each.goal is None or each.ratio <= each.goal else "missed"
        goal = "" if each.goal is None else f"{each.goal:g}, {met}"
        figures = f"{each.ours:.2f}", f"{each.native:.2f}", f"{each.ratio:.2f}"
        floor = "" if each.floor is None else f"{each.floor:.2f}"
        table.add_row(each.name, *figures, goal, floor)
    console.print(table)
    console.print(
        f"count of {counts['records']:,}: {counts['count_seconds']:.3f} s from metadata, "
        f"{counts['native_count_seconds']:.3f} s by native Parquet"
    )
    console.print(f"{options.small:,} small ledgers (goal: planned in {GOAL_SECONDS:g} s):")
    for name, seconds in small.items():
        console.print(f"  {name}: {seconds:.2f} s")


if __name__ == "__main__":
    sys.exit(main())
