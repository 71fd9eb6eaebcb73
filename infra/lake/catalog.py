"""The catalog: a Glue database with one Iceberg table per topic, one for the tables of Spark jobs.

The function ``catalog`` creates the tables of topics and commits to them; nobody else can. Jobs
create and change tables in their own database, and so never a topic's. Analysts get a policy to
attach to their users and roles: it allows queries and nothing that changes a table.
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
    """The Glue databases, an Athena workgroup, and the policy of analysts."""

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
        self.job_database_name = f"{self.database_name}_jobs"
        self.job_database = aws.glue.CatalogDatabase(
            "job-database",
            name=self.job_database_name,
            description="Tables that Spark jobs make of Sulina's topics",
            # Where a table goes whose job names no location; jobs may write nowhere else.
            location_uri=f"s3://{lake.lake.name}/{TABLES}".rstrip("/"),
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
        return allow("Tables", _READ, self._arns(self.database_name, self.job_database_name))

    def may_commit(self) -> Statement:
        """The permission to create and change tables of topics, but not to delete one."""
        return allow("Tables", [*_READ, *_COMMIT], self._arns(self.database_name))

    def may_commit_for_jobs(self) -> Statement:
        """The permission to create and change tables of jobs, but not to delete one."""
        return allow("JobTables", _COMMIT, self._arns(self.job_database_name))

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

    def _arns(self, *databases: str) -> list[str]:
        """The resources that Glue checks."""
        found = [self.region.arn("glue", "catalog")]
        for database in databases:
            found += [
                self.region.arn("glue", f"database/{database}"),
                self.region.arn("glue", f"table/{database}/*"),
            ]
        return found
