"""Replay: publish the rows of an SQL query on topics to another topic, each exactly once.

The view ``records`` contains the topics of ``--topic``. The result's columns ``payload``, ``key``
and ``attributes`` are published unchanged; without a payload column, the other columns become the
payload, as JSON. A run with the same ``--producer`` continues where the last one ended. This
requires the same order of rows each time, which ``--order-by`` provides.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from emr_jobs.jobs import running
from emr_jobs.jobs.running import DONE, Result
from emr_jobs.jobs.stores import records_of
from sulina.errors import Refused
from sulina.runtime.traces import trace_parent

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
    arguments = running.parser("replay_query", __doc__, _EXAMPLES, tables=True)
    running.add_clock_skew(arguments)
    arguments.add_argument("--query", required=True, help="SQL query on the view records")
    arguments.add_argument("--url", required=True, help="broker URL: sulina://broker:6655")
    arguments.add_argument(
        "--token",
        default=os.environ.get("SULINA_TOKEN", ""),
        help="token for the brokers (default: SULINA_TOKEN in the environment)",
    )
    arguments.add_argument(
        "--tls-ca",
        default=os.environ.get("SULINA_TLS_CA", ""),
        help="CA certificates to trust, a file or the text itself (PEM), for sulina+tls:// URLs "
        "(default: SULINA_TLS_CA in the environment, or the system's)",
    )
    arguments.add_argument("--to", required=True, help="the topic to publish to")
    arguments.add_argument(
        "--producer",
        default="",
        help="producer name; records already published under it are not published again",
    )
    arguments.add_argument(
        "--order-by", default="", help="comma-separated columns that define the order of rows"
    )
    arguments.add_argument(
        "--tasks",
        type=int,
        default=1,
        help="number of tasks that publish in parallel (default: 1, which keeps the order)",
    )
    arguments.add_argument(
        "--payload",
        default="",
        choices=("", "json", "avro", "protobuf"),
        help="format of typed payloads",
    )
    arguments.add_argument(
        "--payload-schema", default="", help="schema text, for the typed column value"
    )
    arguments.add_argument(
        "--registry", default="", help="schema registry URL instead: http://broker:8080"
    )
    arguments.add_argument("--subject", default="", help="the schema's subject in the registry")
    arguments.add_argument(
        "--schema-version", default="", help="read the columns of this version, not of all"
    )
    arguments.add_argument(
        "--on-bad-payload",
        default="",
        choices=("fail", "null"),
        help="what to do with a payload that does not fit its schema: fail (default), or null, "
        "with the reason in the column value_error",
    )
    return running.run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Run the query and publish its rows."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as f

    if arguments.producer and not arguments.order_by:
        raise Refused(
            "--producer needs --order-by: a run can only continue if the order of rows is fixed"
        )
    spark = running.session(arguments, "replay-query")
    records = records_of(
        spark,
        arguments,
        checked=True,
        payload=arguments.payload,
        payloadSchema=arguments.payload_schema,
        registry=arguments.registry,
        subject=arguments.subject,
        token=arguments.token if arguments.registry else "",
        version=arguments.schema_version,
        onBadPayload=arguments.on_bad_payload,
    )
    records.createOrReplaceTempView("records")
    order = [each.strip() for each in arguments.order_by.split(",") if each.strip()]
    rows = spark.sql(arguments.query)
    for name in order:
        if name not in rows.columns:
            raise Refused(f"--order-by {name}: the query has no such column ({rows.columns})")
    # Each row always goes to the same task, in the same order, whatever the query's partitions.
    rows = rows.repartitionByRange(arguments.tasks, *order) if order else rows.coalesce(1)
    records = as_records(rows.sortWithinPartitions(*order) if order else rows)
    seen = Observation("replay")
    records = records.observe(seen, f.count(f.lit(1)).alias("records"))
    given = {
        "url": arguments.url,
        "topic": arguments.to,
        "producer": arguments.producer,
        "token": arguments.token,
        "tls": arguments.tls_ca,
        "traceparent": trace_parent(),
    }
    records.write.format("sulina").mode("append").options(
        **{name: value for name, value in given.items() if value}
    ).save()
    return DONE, {"job": "replay_query", "topic": arguments.to, "records": seen.get["records"]}


def as_records(rows: DataFrame) -> DataFrame:
    """The columns of a record; without a payload column, the other columns become the payload."""
    from pyspark.sql import functions as f

    rest = [name for name in rows.columns if name not in _RECORD]
    if "payload" not in rows.columns:
        if not rest:
            raise Refused("the query returns neither a payload nor columns to build one from")
        rows = rows.withColumn("payload", f.to_json(f.struct(*rest)))
    return rows.select(*(name for name in _RECORD if name in rows.columns))


if __name__ == "__main__":
    running.command(main)
