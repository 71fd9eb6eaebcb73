"""Keep an Iceberg table of the newest row of each key, from the records of a topic.

Each run merges what is new since the last one, with one MERGE. The snapshot that it commits says
how far each partition was merged; so a run that fails, or is repeated, leaves no record out and
merges none twice. Of two runs at once, the later one starts again. A tombstone deletes the row of
its key; records without a key are left out. All records of a key are in one partition, where
offsets order them.

The table is one of Spark's catalogs, and is created if it does not exist. Its columns are key,
partition, offset, publish_time, payload and, with a schema, value.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from emr_jobs.jobs import running
from emr_jobs.jobs.commit_properties import commit_with
from emr_jobs.jobs.running import DONE, Result
from emr_jobs.jobs.stores import records_of
from sulina.errors import Refused, Unavailable
from sulina.wire.tombstones import TOMBSTONE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

_EXAMPLES = """\
  python -m emr_jobs.jobs.upsert --path s3://lake --topic /default/customers \\
      --registry http://broker:8080 --table glue.sulina.customers_latest
  python -m emr_jobs.jobs.upsert --from-table glue.sulina.default__customers \\
      --table glue.sulina.customers_latest"""
_MERGED: Final = "sulina.merged"
"""What the summary of a snapshot says: the next offset of each partition."""
_ATTEMPTS: Final = 5
_COLUMNS: Final = ("key", "partition", "offset", "publish_time", "payload", "value")
_CONFLICTS: Final = ("ValidationException", "CommitFailedException", "conflicting files")


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    arguments = running.parser("upsert", __doc__, _EXAMPLES, tables=True)
    add = arguments.add_argument
    add("--table", required=True, help="the table of newest rows: catalog.database.table")
    add("--registry", default="", help="schema registry URL, for the column value")
    add("--subject", default="", help="the schema's subject in the registry")
    add(
        "--after-gap",
        action="store_true",
        help="go on where records were deleted before they were merged",
    )
    return running.run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Merge what is new."""
    spark = running.session(arguments, "upsert")
    typed = {"registry": arguments.registry, "subject": arguments.subject, "onBadPayload": "null"}
    columns = [*_COLUMNS[:-1], "attributes", *(_COLUMNS[-1:] if arguments.registry else ())]
    records = records_of(spark, arguments, checked=True, columns=",".join(columns), **typed)
    records = records.where("key IS NOT NULL")
    table = arguments.table
    _prepare(spark, table, records.select(*_wanted(records)).schema)
    for _ in range(_ATTEMPTS):
        merged = merged_of(spark, table)
        found = _new(records, merged, gaps=arguments.after_gap)
        ends = {part: end for part, (_, end, _) in found.items()}
        count = sum(number for _, _, number in found.values())
        if not ends or _merge(spark, table, _within(records, merged, ends), {**merged, **ends}):
            rows = spark.table(table).count()
            return DONE, {"job": "upsert", "table": table, "records": count, "rows": rows}
    raise Unavailable(
        f"{table} changed {_ATTEMPTS} times while it was merged: let one run at a time change it"
    )


def merged_of(spark: SparkSession, table: str) -> dict[int, int]:
    """The next offset of each partition, by the newest snapshot that says it.

    Snapshots by others, such as those that rewrite files, do not change it.
    """
    found = spark.sql(
        f"SELECT s.summary['{_MERGED}'] AS merged FROM {table}.history h "
        f"JOIN {table}.snapshots s ON h.snapshot_id = s.snapshot_id "
        f"WHERE h.is_current_ancestor AND s.summary['{_MERGED}'] IS NOT NULL "
        "ORDER BY h.made_current_at DESC LIMIT 1"
    ).collect()
    if found:
        return {int(part): offset for part, offset in json.loads(found[0].merged).items()}
    if spark.table(table).limit(1).count():
        raise Refused(f"{table} has rows that this job did not merge: name another table")
    return {}


def _wanted(records: DataFrame) -> list[str]:
    return [name for name in _COLUMNS if name in records.columns]


def _prepare(spark: SparkSession, table: str, schema: StructType) -> None:
    """Create the table, or add the columns that it lacks."""
    from pyspark.sql.types import StructType

    columns = ", ".join(f"`{each.name}` {each.dataType.simpleString()}" for each in schema)
    try:
        spark.sql(f"CREATE TABLE IF NOT EXISTS {table} ({columns}) USING iceberg")
    except Exception as error:
        raise Refused(
            f"{table} cannot be created: {str(error).splitlines()[0]}. Spark needs Iceberg's "
            "runtime, and a catalog for the first part of the name (spark.sql.catalog.<name>)"
        ) from None

    def grow(wanted: StructType, known: StructType, path: str) -> None:
        for field in wanted:
            place = f"{path}`{field.name}`"
            if field.name not in known.names:
                kind = field.dataType.simpleString()
                spark.sql(f"ALTER TABLE {table} ADD COLUMNS ({place} {kind})")
            elif isinstance(field.dataType, StructType):
                inner = known[field.name].dataType
                assert isinstance(inner, StructType), "a column keeps its kind"
                grow(field.dataType, inner, f"{place}.")

    grow(schema, spark.table(table).schema, "")


def _new(
    records: DataFrame, merged: Mapping[int, int], *, gaps: bool
) -> dict[int, tuple[int, int, int]]:
    """Of each partition with new records: the first offset, the end, and how many there are."""
    from pyspark.sql import functions as f

    rows = _within(records, merged, {}).groupBy("partition")
    found = rows.agg(f.min("offset"), f.max("offset") + 1, f.count(f.lit(1))).collect()
    for part, first, *_ in found:
        if not gaps and first > merged.get(part, first) and _lost(records, part, merged[part]):
            raise Refused(
                f"records {merged[part]} to {first - 1} of partition {part} were deleted before "
                "they were merged: --after-gap goes on without them"
            )
    return {part: (first, end, count) for part, first, end, count in found}


def _lost(records: DataFrame, partition: int, offset: int) -> bool:
    """Whether no record before ``offset`` is left, so that those from it on may be gone, too."""
    return not records.where(f"partition = {partition} AND offset < {offset}").limit(1).count()


def _within(records: DataFrame, merged: Mapping[int, int], ends: Mapping[int, int]) -> DataFrame:
    """The records that are not merged yet, up to the ends that are known."""
    from pyspark.sql import functions as f

    rows = records
    for part, offset in merged.items():
        rows = rows.where((f.col("partition") != part) | (f.col("offset") >= offset))
    for part, end in ends.items():
        rows = rows.where((f.col("partition") != part) | (f.col("offset") < end))
    return rows.where(f.col("partition").isin(list(ends))) if ends else rows


def _merge(spark: SparkSession, table: str, records: DataFrame, merged: Mapping[int, int]) -> bool:
    """One MERGE; returns False if the table was changed meanwhile, and nothing was done."""
    from pyspark.sql import functions as f

    names = _wanted(records)
    mark = f.coalesce(f.map_contains_key("attributes", TOMBSTONE), f.lit(False))
    deleted = mark & (f.octet_length("payload") == 0)
    rows = records.select(*names, deleted.alias("deleted"))
    newest = f.max_by(f.struct("*"), f.struct("offset", "partition")).alias("newest")
    rows.groupBy(f.col("key").alias("of")).agg(newest).select("newest.*").createOrReplaceTempView(
        "changes"
    )
    listed = ", ".join(f"`{name}`" for name in names)
    values = ", ".join(f"s.`{name}`" for name in names)
    pairs = ", ".join(f"t.`{name}` = s.`{name}`" for name in names)
    statement = (
        f"MERGE INTO {table} t USING changes s ON t.key = s.key "
        "WHEN MATCHED AND s.deleted THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET {pairs} "
        f"WHEN NOT MATCHED AND NOT s.deleted THEN INSERT ({listed}) VALUES ({values})"
    )
    try:
        commit_with(spark, {_MERGED: json.dumps(merged)}, lambda: spark.sql(statement))
    except Exception as error:
        if any(each in str(error) for each in _CONFLICTS):
            return False
        raise
    finally:
        spark.catalog.dropTempView("changes")
    return True


if __name__ == "__main__":
    running.command(main)
