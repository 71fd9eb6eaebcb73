"""The catalog: a Glue table over the ledgers, for SQL queries with Athena and other engines.

The function ``catalog`` registers a partition when its first object arrives. Partition projection
is not an option: topic names cannot be enumerated, and with injected values every query would have
to name one namespace and one topic.
"""

from __future__ import annotations

from typing import Final

import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.lake.buckets import LEDGERS, RESULTS, LakeBuckets

COLUMNS: Final = (
    ("offset", "bigint", "The record's position in its topic partition"),
    ("publish_time", "timestamp", "When it was published, UTC"),
    ("producer", "string", "The producer's name"),
    ("sequence", "bigint", "The producer's sequence number of the record"),
    ("key", "binary", "The record's key, if it has one"),
    ("payload", "binary", "The message"),
    ("attributes", "map<string,string>", "The message's attributes"),
    ("schema_id", "bigint", "The message's schema; 0 means none"),
    ("schema_version", "int", "The version of that schema"),
    ("delivery_time", "timestamp", "The earliest delivery time, if one was set"),
    ("frame", "binary", "What a replay needs to rebuild the original frame"),
)
PARTITIONS: Final = (
    ("namespace", "string", "The topic's namespace"),
    ("topic", "string", "The topic's name without its namespace"),
    ("partition", "int", "The topic's partition; 0 if it is not partitioned"),
)
_GIB: Final = 1 << 30


class Catalog(Component):
    """The Glue database, its table, and an Athena workgroup."""

    def __init__(self, lake: LakeBuckets, parent: Deployment) -> None:
        super().__init__("Catalog", parent)
        settings = self.settings
        self.database_name = settings.prefix.replace("-", "_")
        self.table_name = "ledgers"
        self.database = aws.glue.CatalogDatabase(
            "database",
            name=self.database_name,
            description="Sulina's topics",
            opts=self.within(),
        )
        self.table = aws.glue.CatalogTable(
            "ledgers",
            name=self.table_name,
            database_name=self.database.name,
            description="Closed ledgers, one row per record",
            table_type="EXTERNAL_TABLE",
            parameters={"EXTERNAL": "TRUE", "classification": "parquet"},
            partition_keys=[
                {"name": name, "type": type_, "comment": text} for name, type_, text in PARTITIONS
            ],
            # Queries filter by topic: without an index Athena would fetch every partition.
            partition_indices=[{"index_name": "topics", "keys": ["namespace", "topic"]}],
            storage_descriptor={
                "location": f"s3://{lake.lake.name}/{LEDGERS}",
                "input_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
                "output_format": "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
                "columns": [
                    {"name": name, "type": type_, "comment": text} for name, type_, text in COLUMNS
                ],
                "ser_de_info": {
                    "name": "parquet",
                    "serialization_library": (
                        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
                    ),
                },
            },
            # Its name can be used once.
            opts=self.within(delete_before_replace=True),
        )
        self.workgroup = aws.athena.Workgroup(
            "queries",
            name=settings.prefix,
            description="Queries on Sulina's topics",
            configuration={
                "enforce_workgroup_configuration": True,
                "publish_cloudwatch_metrics_enabled": True,
                # A query without a topic filter is stopped at about one dollar.
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
        """The resources that Glue checks when partitions are read or created."""
        table = f"{self.database_name}/{self.table_name}"
        return [
            self.region.arn("glue", "catalog"),
            self.region.arn("glue", f"database/{self.database_name}"),
            self.region.arn("glue", f"table/{table}"),
        ]
