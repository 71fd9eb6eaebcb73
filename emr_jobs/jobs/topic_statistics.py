"""Statistics of topics per time window: records, bytes, rates, sizes, producers, top keys.

Percentiles are exact for few values and approximate for many (within 1 % of the rank).
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import TYPE_CHECKING, Any

from emr_jobs.jobs import running
from emr_jobs.jobs.running import DONE, Result
from emr_jobs.jobs.stores import records_of, spark_path
from sulina.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_EXAMPLES = """\
  python -m emr_jobs.jobs.topic_statistics --path s3://lake --topic /default/orders
  python -m emr_jobs.jobs.topic_statistics --path ./lake --topic '/default/*' --window '1 hour' \\
      --top 20 --output s3://reports/orders --chart orders.png"""
_PERCENTILES = (0.5, 0.9, 0.99, 1.0)
_MAX_ROWS = 10_000
_UNIT = r"((micro|milli)?second|minute|hour|day|week)s?"
_WINDOW = re.compile(rf"(0*[1-9]\d{{0,8}} {_UNIT}( |$))+", re.IGNORECASE)
"""Lengths that Spark takes for windows; months and years differ in length, so it refuses them."""


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    arguments = running.parser("topic_statistics", __doc__, _EXAMPLES, tables=True)
    running.add_clock_skew(arguments)
    arguments.add_argument(
        "--window",
        type=_window,
        default="1 hour",
        help="window length, such as '5 minutes' (default: 1 hour)",
    )
    arguments.add_argument(
        "--top", type=int, default=10, help="number of top keys per topic (default: 10)"
    )
    arguments.add_argument("--output", default="", help="write all windows here, as Parquet")
    arguments.add_argument("--chart", default="", help="draw the rates to this file (PNG, SVG)")
    running.add_scheme(arguments)
    return running.run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """The statistics: at most 10,000 windows in the result, all windows in ``--output``."""
    spark = running.session(arguments, "topic-statistics")
    output = spark_path(spark, arguments.output) if arguments.output else ""
    columns = "namespace,topic,partition,offset,publish_time,producer,key,payload"
    frame = records_of(spark, arguments, checked=False, columns=columns)
    windows = by_window(frame, arguments.window).cache()
    try:
        if output:
            windows.write.mode("overwrite").parquet(output)
        rows = [_in_utc(row.asDict()) for row in windows.limit(_MAX_ROWS).collect()]
    finally:
        windows.unpersist()
    keys = [row.asDict() for row in top_keys(frame, arguments.top).collect()]
    if arguments.chart:
        draw(rows, arguments.chart)
    result = {
        "job": "topic_statistics",
        "window": arguments.window,
        "records": sum(row["records"] for row in rows),
        "bytes": sum(row["bytes"] for row in rows),
        "windows": rows,
        "top_keys": keys,
    }
    return DONE, result


def by_window(frame: DataFrame, window: str) -> DataFrame:
    """One row per topic and window of publish time, in order."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.octet_length("payload"), f.lit(0))
    seconds = f.unix_timestamp("window.end") - f.unix_timestamp("window.start")
    sizes = f.percentile_approx(size, list(_PERCENTILES))
    grouped = frame.groupBy(_topic(), f.window("publish_time", window)).agg(
        f.count(f.lit(1)).alias("records"),
        f.sum(size).alias("bytes"),
        sizes.alias("sizes"),
        _distinct("producer").alias("producers"),
        _distinct("key").alias("keys"),
        f.min("offset").alias("first_offset"),
        f.max("offset").alias("last_offset"),
    )
    return grouped.select(
        "topic",
        f.col("window.start").alias("start"),
        f.col("window.end").alias("end"),
        "records",
        "bytes",
        (f.col("records") / seconds).alias("records_per_second"),
        (f.col("bytes") / seconds).alias("bytes_per_second"),
        *(
            f.col("sizes")[index].alias("size_max" if each == 1 else f"size_p{each * 100:.0f}")
            for index, each in enumerate(_PERCENTILES)
        ),
        "producers",
        "keys",
        "first_offset",
        "last_offset",
    ).orderBy("topic", "start")


def _distinct(column: str) -> Column:
    """The number of distinct values: exact for few, else approximate, never more than values."""
    from pyspark.sql import functions as f

    return f.least(f.approx_count_distinct(column, 0.01), f.count(column))


def top_keys(frame: DataFrame, count: int) -> DataFrame:
    """The keys with the most records per topic; keys that are not UTF-8 are in hexadecimal."""
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    order = Window.partitionBy("topic").orderBy(f.desc("records"), "key")
    text = f.when(f.is_valid_utf8("key"), f.col("key").cast("string")).otherwise(f.hex("key"))
    counted = (
        frame.where("key IS NOT NULL")
        .groupBy(_topic(), text.alias("key"))
        .agg(f.count(f.lit(1)).alias("records"))
    )
    ranked = counted.withColumn("rank", f.row_number().over(order))
    return ranked.where(f.col("rank") <= count).orderBy("topic", "rank")


def draw(rows: Sequence[dict[str, Any]], path: str) -> None:
    """Plot records per second, one line per topic. Raises ``Refused`` without matplotlib.

    A line is at zero where a topic has no records.
    """
    try:
        from matplotlib.dates import ConciseDateFormatter
        from matplotlib.figure import Figure
    except ImportError:
        raise Refused("--chart needs matplotlib: pip install matplotlib") from None
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for topic in sorted({row["topic"] for row in rows}):
        points = list(line([row for row in rows if row["topic"] == topic]))
        axes.plot([when for when, _ in points], [rate for _, rate in points], ".-", label=topic)
    axes.set_ylabel("records per second")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if rows:
        # Above the plot, so that it hides no line.
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)
        axes.xaxis.set_major_formatter(ConciseDateFormatter(axes.xaxis.get_major_locator()))
    figure.savefig(path, dpi=120)


def line(rows: Sequence[dict[str, Any]]) -> Iterator[tuple[Any, float]]:
    """The points of a topic's line, with zero at both ends of each time without records."""
    before: dict[str, Any] | None = None
    for row in rows:
        if before is not None and before["end"] < row["start"]:
            yield before["end"], 0.0
            last_empty = row["start"] - (row["end"] - row["start"])
            if last_empty > before["end"]:
                yield last_empty, 0.0
        yield row["start"], row["records_per_second"]
        before = row


def _window(text: str) -> str:
    if not _WINDOW.fullmatch(" ".join(text.split())):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a length of time: write a number and a unit, such as '5 minutes', "
            "'1 hour' or '1 day'"
        )
    return text


def _in_utc(row: dict[str, Any]) -> dict[str, Any]:
    """Spark returns naive times in this machine's time zone; make them UTC."""
    return {**row, "start": row["start"].astimezone(UTC), "end": row["end"].astimezone(UTC)}


def _topic() -> Column:
    from pyspark.sql import functions as f

    return f.concat(f.lit("/"), "namespace", f.lit("/"), "topic").alias("topic")


if __name__ == "__main__":
    running.command(main)
