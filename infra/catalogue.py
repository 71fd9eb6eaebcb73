"""The catalogue: a Glue table over the ledgers, so that Athena and others read topics with SQL.

Partitions are registered one by one, by the function ``catalog`` when an object arrives. Partition
projection was turned down: names of topics can't be enumerated, and injected values would make
every query name one namespace and one topic.
"""

from __future__ import annotations

from typing import Final

import pulumi
import pulumi_aws as aws

from infra.config import Settings
from infra.lake import LEDGERS, RESULTS, LakeBuckets
from infra.tier import Place, Tier

COLUMNS: Final = (
    ("offset", "bigint", "The record's place in its topic partition"),
    ("publish_time", "timestamp", "When it was published, UTC"),
    ("producer", "string", "Who published it"),
    ("sequence", "bigint", "The producer's own number of the record"),
    ("key", "binary", "The record's key, if it has one"),
    ("payload", "binary", "The message"),
    ("attributes", "map<string,string>", "Names and values beside the message"),
    ("schema_id", "bigint", "The message's schema; 0 is none"),
    ("schema_version", "int", "The version of that schema"),
    ("delivery_time", "timestamp", "Not to be delivered before, if that was asked for"),
    ("frame", "binary", "What a replay needs to make the same frame again"),
)
PARTITIONS: Final = (
    ("namespace", "string", "The topic's namespace"),
    ("topic", "string", "The topic, without its namespace"),
    ("partition", "int", "The topic's partition; 0 if it has none"),
)
_GIB: Final = 1 << 30


class Catalogue(Tier):
    """The database, its table, and a place to query it."""

    def __init__(
        self, settings: Settings, place: Place, lake: LakeBuckets, parent: pulumi.Resource
    ) -> None:
        super().__init__("Catalogue", settings, place, parent)
        self.database_name = settings.prefix.replace("-", "_")
        self.table_name = "ledgers"
        self.database = aws.glue.CatalogDatabase(
            "database",
            name=self.database_name,
            description="Topics of Sulina",
            opts=self.within(),
        )
        self.location = f"s3://{lake.lake.name}/{LEDGERS}"
        self.table = aws.glue.CatalogTable(
            "ledgers",
            name=self.table_name,
            database_name=self.database.name,
            description="Closed ledgers, a row a record",
            table_type="EXTERNAL_TABLE",
            parameters={"EXTERNAL": "TRUE", "classification": "parquet"},
            partition_keys=[
                {"name": name, "type": kind, "comment": what} for name, kind, what in PARTITIONS
            ],
            # Queries name a topic: without an index Athena would fetch every partition's entry.
            partition_indices=[{"index_name": "topics", "keys": ["namespace", "topic"]}],
            storage_descriptor={
                "location": self.location,
                "input_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
                "output_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
                "columns": [
                    {"name": name, "type": kind, "comment": what} for name, kind, what in COLUMNS
                ],
                "ser_de_info": {
                    "name": "parquet",
                    "serialization_library": (
                        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
                    ),
                },
            },
            opts=self.within(),
        )
        self.workgroup = aws.athena.Workgroup(
            "queries",
            name=settings.prefix,
            description="Queries of Sulina's topics",
            configuration={
                "enforce_workgroup_configuration": True,
                "publish_cloudwatch_metrics_enabled": True,
                # A query that forgot its topic stops before it costs a dollar.
                "bytes_scanned_cutoff_per_query": 200 * _GIB,
                "result_configuration": {
                    "output_location": f"s3://{lake.work.name}/{RESULTS}",
                    "encryption_configuration": {
                        "encryption_option": "SSE_KMS",
                        "kms_key_arn": lake.key,
                    },
                },
            },
            force_destroy=not settings.protect,
            opts=self.within(),
        )
        self.register_outputs({"database": self.database_name})

    def arns(self) -> list[str]:
        """What Glue asks rights for when partitions are read or made."""
        table = f"{self.database_name}/{self.table_name}"
        return [
            self.place.arn("glue", "catalog"),
            self.place.arn("glue", f"database/{self.database_name}"),
            self.place.arn("glue", f"table/{table}"),
        ]
