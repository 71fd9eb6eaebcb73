"""Compact ledgers into a table of large Parquet files, partitioned by topic and date.

Each run adds the records since the last one; the table's run log states which offsets it contains.
A failed or repeated run adds no record twice. The ledgers' objects are not changed: only retention
and the deletion of topics remove them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emr_jobs.jobs import running
from emr_jobs.jobs.compacted import CompactedTable, Uncompacted, todo
from emr_jobs.jobs.running import DONE, Result
from emr_jobs.jobs.stores import read_records, spark_path
from emr_jobs.source.columns import DEFAULT
from emr_jobs.source.objects import existing_parts
from emr_jobs.source.options import StoreLocation, parse_options
from emr_jobs.source.storage import LakeStorage
from sulina.errors import Refused
from sulina.runtime.real_clock import RealClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EXAMPLES = """\
  python -m emr_jobs.jobs.compaction --path s3://lake --topic '/default/*' --table s3://tables/orders
  spark.read.parquet("s3://tables/orders/data").where("date = '2026-05-01'")"""


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    arguments = running.parser("compaction", __doc__, _EXAMPLES)
    arguments.add_argument("--table", required=True, help="the table: a folder or a URL")
    arguments.add_argument(
        "--file-records",
        type=int,
        default=5_000_000,
        help="maximum number of records per file (default: 5000000)",
    )
    running.add_scheme(arguments)
    return running.run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Compact new records. Of two concurrent runs on a table, the later fails with ``Refused``."""
    options = running.source_options(arguments)
    bounds = {"startTime", "endTime", "startOffset", "endOffset"} & options.keys()
    if bounds:
        raise Refused(
            f"compaction always takes all new records: leave out {', '.join(sorted(bounds))}"
        )
    parsed = parse_options(options)
    storage = LakeStorage(parsed.location)
    table = CompactedTable(StoreLocation(arguments.table.rstrip("/"), arguments.endpoint))
    number, done = table.state()
    old_us = RealClock().wall_us() - parsed.gap_seconds * 1_000_000
    pieces = todo(storage, existing_parts(storage, parsed), done, old_us)
    result: Result = {"job": "compaction", "table": arguments.table, "run": number, "records": 0}
    if not pieces:
        return DONE, {**result, "topics": {}}
    spark = running.session(arguments, "compaction")
    target = f"{spark_path(spark, arguments.table)}/data"
    _write(
        spark,
        [read_records(spark, arguments.scheme, options | _range(each)) for each in pieces],
        f"{target}/run={number:08}",
        arguments.file_records,
    )
    table.commit(number, pieces)
    result["records"] = sum(each.end - each.start for each in pieces)
    result["topics"] = {str(each.part): [each.start, each.end] for each in pieces}
    return DONE, result


def _range(piece: Uncompacted) -> dict[str, str]:
    """The options that select one topic partition's new records.

    Without typed columns, which differ between topics, and between objects of one topic.
    """
    start, end = str(piece.start), str(piece.end)
    return {
        "topic": piece.name,
        "startOffset": start,
        "endOffset": end,
        "columns": ",".join(DEFAULT),
    }


def _write(spark: SparkSession, frames: list[DataFrame], path: str, file_records: int) -> None:
    """Write one run's files, overwriting those of a failed run."""
    from functools import reduce

    from pyspark.sql import functions as f

    rows = reduce(lambda one, other: one.unionByName(other), frames)
    rows = rows.withColumn("date", f.to_date("publish_time"))
    folders = ["namespace", "topic", "date"]
    (
        rows.repartition(*folders)
        .sortWithinPartitions(*folders, "partition", "offset")
        .write.mode("overwrite")
        .option("compression", "zstd")
        .option("maxRecordsPerFile", str(file_records))
        .partitionBy(*folders)
        .parquet(path)
    )


if __name__ == "__main__":
    running.command(main)
