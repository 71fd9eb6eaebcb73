"""The catalog: a Glue database with one Iceberg table per topic, and who may read it.

The function ``catalog`` creates the tables and commits to them; nobody else can. Analysts get a
policy to attach to their users and roles: it allows queries and nothing that changes a table.
"""

from __future__ import annotations

from typing import Final

import pulumi_aws as aws

from infra.component import Component, Deployment
from infra.lake.buckets import ICEBERG, LEDGERS, RESULTS, TABLES, LakeBuckets
from infra.security.iam import Statement, allow, document

_GIB: Final = 1 << 30
_READ: Final = ("glue:GetDatabase", "glue:GetTable", "glue:GetTables")
_COMMIT: Final = ("glue:CreateTable", "glue:UpdateTable")


class Catalog(Component):
    """The Glue database, an Athena workgroup, and the policy of analysts."""

    def __init__(self, lake: LakeBuckets, parent: Deployment) -> None:
        super().__init__("Catalog", parent)
        settings = self.settings
        self.database_name = settings.prefix.replace("-", "_")
        self.database = aws.glue.CatalogDatabase(
            "database",
            name=self.database_name,
            description="Sulina's topics",
            opts=self.within(),
        )
        self.workgroup = aws.athena.Workgroup(
            "queries",
            name=settings.prefix,
            description="Queries on Sulina's topics",
            configuration={
                "enforce_workgroup_configuration": True,
                "publish_cloudwatch_metrics_enabled": True,
                # A query without a condition is stopped at about one dollar.
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
        self.analysts = aws.iam.Policy(
            "analysts",
            name=self.named("analysts"),
            description="Queries Sulina's topics; changes nothing",
            policy=document(self._analysts(lake)),
            opts=self.within(),
        )
        self.register_outputs({"database": self.database_name})

    def may_read(self) -> Statement:
        """The permission to find tables; their files are in the lake."""
        return allow("Tables", _READ, self._arns())

    def may_commit(self) -> Statement:
        """The permission to create and change tables, but not to delete one."""
        return allow("Tables", [*_READ, *_COMMIT], self._arns())

    def _analysts(self, lake: LakeBuckets) -> list[Statement]:
        return [
            self.may_read(),
            allow(
                "Queries",
                [
                    *("athena:GetQueryExecution", "athena:GetQueryResults"),
                    *("athena:GetQueryResultsStream", "athena:GetWorkGroup"),
                    *("athena:StartQueryExecution", "athena:StopQueryExecution"),
                ],
                [self.region.arn("athena", f"workgroup/{self.settings.prefix}")],
            ),
            *lake.read("Lake", lake.lake, LEDGERS, ICEBERG, TABLES),
            *lake.write("Results", lake.work, RESULTS),
            allow("Location", ["s3:GetBucketLocation"], [lake.lake.arn, lake.work.arn]),
        ]

    def _arns(self) -> list[str]:
        """The resources that Glue checks."""
        return [
            self.region.arn("glue", "catalog"),
            self.region.arn("glue", f"database/{self.database_name}"),
            self.region.arn("glue", f"table/{self.database_name}/*"),
        ]
