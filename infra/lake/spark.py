"""A Spark application on EMR Serverless, its job files, and the role of its jobs.

It costs nothing while no job runs. Jobs read topics, as ledgers and as tables, and write tables of
their own; they cannot change or delete a ledger, nor a topic's table. They run inside the VPC, so
that a replay can publish to the brokers.
"""

from __future__ import annotations

import pulumi_aws as aws

from infra.artifacts import job_files
from infra.component import Component, Deployment
from infra.lake.buckets import ICEBERG, JOB_LOGS, JOBS, LEDGERS, TABLES, LakeBuckets
from infra.lake.catalog import Catalog
from infra.network.firewall import Firewall
from infra.network.vpc import VpcNetwork
from infra.security.iam import role, trust


class SparkApplication(Component):
    """The EMR Serverless application, its job files and job role."""

    def __init__(
        self,
        network: VpcNetwork,
        firewall: Firewall,
        lake: LakeBuckets,
        catalog: Catalog,
        parent: Deployment,
    ) -> None:
        super().__init__("SparkApplication", parent)
        settings, region = self.settings, self.region
        self.application = aws.emrserverless.Application(
            "spark",
            name=settings.prefix,
            release_label=settings.spark.release,
            type="SPARK",
            architecture=settings.architecture.upper(),
            auto_start_configuration={"enabled": True},
            auto_stop_configuration={"enabled": True, "idle_timeout_minutes": 5},
            # Limits what all jobs together can cost per hour.
            maximum_capacity={
                "cpu": f"{settings.spark.max_cpu} vCPU",
                "memory": f"{settings.spark.max_memory_gib} GB",
            },
            network_configuration={
                "subnet_ids": [subnet.id for subnet in network.work],
                "security_group_ids": [firewall.group_id("spark")],
            },
            opts=self.within(),
        )
        for name, content in job_files(settings.jobs_folder).items():
            aws.s3.BucketObjectv2(
                name,
                bucket=lake.work.bucket.id,
                key=f"{JOBS}{name}",
                source=content,
                opts=self.within(),
            )
        self.role = role(
            self,
            "job",
            trust(
                "emr-serverless.amazonaws.com",
                region.account,
                region.arn("emr-serverless", "/applications/*"),
            ),
            [
                *lake.read("Topics", lake.lake, LEDGERS, ICEBERG),
                *lake.write("Results", lake.lake, TABLES),
                *lake.read("Jobs", lake.work, JOBS),
                *lake.write("JobLogs", lake.work, JOB_LOGS),
                catalog.may_read(),
                catalog.may_commit_for_jobs(),
            ],
        )
        self.register_outputs({"application": self.application.id})
