"""Erase: find the records of topics by a condition, and have the brokers erase exactly those.

The condition is an SQL expression over the columns of the data source: ``value.<field>`` with a
schema, ``key``, ``attributes`` and so on. Brokers get offsets, a few thousand ranges at a time, and
replace the objects; the condition and the values in it stay here. Records that are not in objects
yet are searched, too. A run that was interrupted is repeated: what is erased already is not found
again, and a request that is under way is waited for.

Records whose payload does not fit the schema can't be judged. By default nothing is erased then;
``--unjudged keep`` erases the others, and ``--unjudged erase`` those as well. ``--dry-run`` only
counts.
"""

from __future__ import annotations

import argparse
import asyncio
import os
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any, Final

from emr_jobs.brokers import make_client
from emr_jobs.jobs import running
from emr_jobs.jobs.running import DONE, Result, source_options
from sulina.copies.erasing import wait_erased
from sulina.errors import Refused
from sulina.metadata.keys.erasures import MOST_RANGES
from sulina.operations.ledgers import OffsetRange
from sulina.runtime.real_clock import RealClock

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_EXAMPLES = """\
  python -m emr_jobs.jobs.erase --path s3://lake --topic /default/orders --dry-run \\
      --registry http://broker:8080 --payload json --url sulina://broker:6655 \\
      --where "value.customer = 'ann'"
  python -m emr_jobs.jobs.erase --path s3://lake --topic '/default/*' \\
      --url sulina://broker:6655 --where "attributes['user'] = 'ann'" """
_NOTHING_TO_JUDGE: Final = "it is empty"
"""The reason of tombstones, and of what was erased before."""


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    arguments = running.parser("erase", __doc__, _EXAMPLES)
    add = arguments.add_argument
    add("--where", required=True, help="SQL condition; records for which it is true are erased")
    add("--url", required=True, help="broker URL: sulina://broker:6655")
    add(
        "--token",
        default=os.environ.get("SULINA_TOKEN", ""),
        help="token for the brokers (default: SULINA_TOKEN in the environment)",
    )
    add(
        "--tls-ca",
        default=os.environ.get("SULINA_TLS_CA", ""),
        help="CA certificates to trust, a file or the text itself (PEM)",
    )
    add("--payload", default="", choices=("", "json", "avro", "protobuf"), help="payload format")
    add("--payload-schema", default="", help="schema text, for the typed column value")
    add("--registry", default="", help="schema registry URL instead: http://broker:8080")
    add("--subject", default="", help="the schema's subject in the registry")
    add(
        "--unjudged",
        default="refuse",
        choices=("refuse", "keep", "erase"),
        help="what to do if payloads do not fit the schema (default: refuse)",
    )
    add("--dry-run", action="store_true", help="only count")
    return running.run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Find the records, and erase them."""
    from pyspark.sql import functions as f

    spark = running.session(arguments, "erase")
    options = source_options(
        arguments,
        live="true",
        url=arguments.url,
        token=arguments.token,
        tls=arguments.tls_ca,
        payload=arguments.payload,
        payloadSchema=arguments.payload_schema,
        registry=arguments.registry,
        subject=arguments.subject,
        onBadPayload="null" if arguments.payload or arguments.registry else "",
    )
    rows = judged(spark.read.format("sulina").options(**options).load(), arguments.where)
    rows = rows.persist()
    try:
        counts = rows.agg(
            f.expr("count_if(found)").alias("found"),
            f.expr("count_if(unjudged AND NOT found)").alias("rest"),
        ).first()
        assert counts is not None
        result: Result = {
            "job": "erase",
            "topic": arguments.topic,
            "records": counts["found"],
            "unjudged": counts["rest"],
            "dry_run": arguments.dry_run,
        }
        if arguments.dry_run:
            return DONE, result
        if counts["rest"] and arguments.unjudged == "refuse":
            raise Refused(
                f"{counts['rest']:,} records can't be judged, because their payloads do not fit "
                "the schema: look at value_error, then choose --unjudged keep or --unjudged "
                "erase. Nothing was erased"
            )
        wanted = rows if arguments.unjudged == "erase" else rows.where("found")
        offsets = wanted.select("namespace", "topic", "partition", "offset")
        ordered = offsets.orderBy("namespace", "topic", "partition", "offset")
        done = asyncio.run(_erase(arguments, ordered.toLocalIterator(prefetchPartitions=True)))
        return DONE, {**result, **done}
    finally:
        rows.unpersist()


def judged(records: DataFrame, where: str) -> DataFrame:
    """The records for which a condition is true, and those that it can't judge."""
    from pyspark.sql import functions as f

    unjudged = f.lit(False)
    if "value_error" in records.columns:
        unjudged = f.coalesce(f.col("value_error") != f.lit(_NOTHING_TO_JUDGE), f.lit(False))
    found = f.coalesce(f.expr(f"({where}\n)"), f.lit(False))
    place = ("namespace", "topic", "partition", "offset")
    rows = records.select(*place, found.alias("found"), unjudged.alias("unjudged"))
    return rows.where("found or unjudged")


def ranges(rows: Iterator[Any]) -> Iterator[tuple[str, Iterator[OffsetRange]]]:
    """The ranges of offsets of each partition, by its number; ``rows`` are in order."""
    for place, some in groupby(rows, lambda row: (row.namespace, row.topic, row.partition)):
        yield f"/{place[0]}/{place[1]} {place[2]}", _joined(row.offset for row in some)


def _joined(offsets: Iterator[int]) -> Iterator[OffsetRange]:
    first = last = -2
    for offset in offsets:
        if offset > last + 1 and last >= 0:
            yield OffsetRange(first, last)
        first, last = (first if offset == last + 1 else offset), offset
    if last >= 0:
        yield OffsetRange(first, last)


async def _erase(arguments: argparse.Namespace, rows: Iterator[Any]) -> Result:
    """Have the brokers erase, one request after the other."""
    erased = objects = requests = gone_us = 0
    async with make_client(arguments.url, arguments.tls_ca, arguments.token) as client:
        for place, found in ranges(rows):
            topic, _, number = place.partition(" ")
            parts = [part for part, _ in (await client.topic(topic)).parts]
            while some := tuple(islice(found, MOST_RANGES)):
                asked = await client.admin.ledgers.erase(parts[int(number)], offsets=some)
                done = await wait_erased(client.admin, asked, RealClock())
                erased += done.erased
                objects += len(done.objects)
                gone_us = max(gone_us, done.gone_us)
                requests += 1
    return {"erased": erased, "objects": objects, "requests": requests, "gone_us": gone_us}


if __name__ == "__main__":
    running.command(main)
