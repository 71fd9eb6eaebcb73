"""Replay: the rows of an SQL query over topics are published to another topic, each once.

The topics of ``--topic`` are the view ``records``. Columns ``payload``, ``key`` and ``attributes``
of the result are published as they are; if there is no payload, the other columns become one, as
JSON. A run under the same ``--producer`` goes on where the last one ended, so the order of rows has
to be the same each time: it is sorted by the columns of ``--order-by``.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emr_jobs.jobs.running import (
    DONE,
    Result,
    add_clock_skew,
    add_source,
    command,
    parser,
    run,
    session,
    source_options,
)
from sulina.errors import Refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXAMPLES = """\
  python -m emr_jobs.jobs.replay_query --path s3://lake --topic /default/orders \\
      --query "SELECT payload, key, offset FROM records WHERE attributes['source'] = 'web'" \\
      --order-by offset --url sulina://broker:6655 --to /default/web-orders --producer fix-17
  python -m emr_jobs.jobs.replay_query --path ./lake --topic /default/orders --payload json \\
      --registry http://broker:8080 --to /default/totals --url sulina://127.0.0.1:6655 \\
      --query "SELECT value.customer AS key, sum(value.amount) AS total FROM records GROUP BY 1" """
_RECORD = ("payload", "key", "attributes")


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    arguments = parser(__spec__.name, __doc__, _EXAMPLES)
    add_source(arguments)
    add_clock_skew(arguments)
    arguments.add_argument("--query", required=True, help="SQL over the view records")
    arguments.add_argument("--url", required=True, help="of the brokers: sulina://broker:6655")
    arguments.add_argument("--to", required=True, help="the topic to publish to")
    arguments.add_argument(
        "--producer", default="", help="a name: what was published under it is not again"
    )
    arguments.add_argument(
        "--order-by", default="", help="columns that make the rows' order certain, by commas"
    )
    arguments.add_argument(
        "--tasks", type=int, default=1, help="that publish side by side (default: 1, in order)"
    )
    arguments.add_argument("--payload", default="", choices=("", "json", "avro"))
    arguments.add_argument("--payload-schema", default="", help="its text, for the column value")
    arguments.add_argument("--registry", default="", help="or the registry: http://broker:8080")
    arguments.add_argument("--subject", default="", help="the schema's subject there")
    return run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Run the query and publish its rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    if arguments.producer and not arguments.order_by:
        raise Refused("--producer needs --order-by: rows are the same each time only in an order")
    spark = session(arguments, "replay-query")
    options = source_options(
        arguments,
        payload=arguments.payload,
        payloadSchema=arguments.payload_schema,
        registry=arguments.registry,
        subject=arguments.subject,
    )
    spark.read.format("sulina").options(**options).load().createOrReplaceTempView("records")
    order = [each.strip() for each in arguments.order_by.split(",") if each.strip()]
    rows = spark.sql(arguments.query)
    for name in order:
        if name not in rows.columns:
            raise Refused(f"--order-by {name}: the query has no such column ({rows.columns})")
    # One place for each row, and one order there, whatever the partitions of the query were.
    rows = rows.repartitionByRange(arguments.tasks, *order) if order else rows.coalesce(1)
    records = as_records(rows.sortWithinPartitions(*order) if order else rows)
    seen = Observation("replay")
    records = records.observe(seen, f.count(f.lit(1)).alias("records"))
    given = {"url": arguments.url, "topic": arguments.to, "producer": arguments.producer}
    records.write.format("sulina").mode("append").options(
        **{name: value for name, value in given.items() if value}
    ).save()
    return DONE, {"job": "replay_query", "topic": arguments.to, "records": seen.get["records"]}


def as_records(rows: DataFrame) -> DataFrame:
    """The columns that a record has; what else there is becomes the payload."""
    from pyspark.sql import functions as f

    rest = [name for name in rows.columns if name not in _RECORD]
    if "payload" not in rows.columns:
        if not rest:
            raise Refused("the query gives neither a payload nor columns to make one of")
        rows = rows.withColumn("payload", f.to_json(f.struct(*rest)))
    return rows.select(*(name for name in _RECORD if name in rows.columns))


if __name__ == "__main__":
    command(main)
