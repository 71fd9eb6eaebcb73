"""Analytics: a Spark application on EMR Serverless, and the role that its jobs have.

It costs nothing while no job runs. Jobs read ledgers and write tables; they can't change or delete
a ledger. They run inside the network, so that a replay can publish to the brokers.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.artefacts import job_files
from infra.catalogue import Catalogue
from infra.ground import Ground
from infra.lake import JOB_LOGS, JOBS, LEDGERS, TABLES, LakeBuckets
from infra.policies import allow, trust
from infra.roles import role
from infra.tier import Tier


class Analytics(Tier):
    """The application, its jobs' files and role."""

    def __init__(
        self,
        ground: Ground,
        lake: LakeBuckets,
        catalogue: Catalogue,
        parent: pulumi.Resource,
    ) -> None:
        settings, place = ground.settings, ground.place
        super().__init__("Analytics", settings, place, parent)
        self.application = aws.emrserverless.Application(
            "spark",
            name=settings.prefix,
            release_label=settings.analytics.release,
            type="spark",
            architecture=settings.architecture.upper(),
            auto_start_configuration={"enabled": True},
            auto_stop_configuration={"enabled": True, "idle_timeout_minutes": 5},
            # The most that all jobs together can cost an hour.
            maximum_capacity={
                "cpu": f"{settings.analytics.most_cpu} vCPU",
                "memory": f"{settings.analytics.most_memory_gib} GB",
            },
            network_configuration={
                "subnet_ids": [subnet.id for subnet in ground.network.work],
                "security_group_ids": [ground.firewall.group("spark")],
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
                place.account,
                place.arn("emr-serverless", "/applications/*"),
            ),
            [
                *lake.read("Ledgers", lake.lake, LEDGERS),
                *lake.write("Tables", lake.lake, TABLES),
                *lake.read("Jobs", lake.work, JOBS),
                *lake.write("JobLogs", lake.work, JOB_LOGS),
                allow(
                    "Catalogue",
                    ["glue:GetDatabase", "glue:GetTable", "glue:GetPartitions"],
                    catalogue.arns(),
                ),
            ],
        )
        self.register_outputs({"application": self.application.id})
