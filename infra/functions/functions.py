"""The Lambda functions: purpose, environment and permissions of each.

Only ``discovery`` runs inside the VPC; the others call it to query the cluster. docs/functions.md
documents their environment variables and events.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra.cluster.brokers import BrokerService
from infra.cluster.load_balancer import LoadBalancer
from infra.cluster.shared import SharedResources
from infra.component import Component, Deployment
from infra.functions.lambda_function import FunctionSpec, LambdaFunction
from infra.lake.buckets import ICEBERG, JOB_LOGS, JOBS, LEDGERS, TABLES, LakeBuckets
from infra.lake.catalog import Catalog
from infra.lake.spark import SparkApplication
from infra.network import ports
from infra.security.iam import Statement, allow, allow_any_resource
from infra.telemetry.metrics import NAMESPACE


class Functions(Component):
    """All functions by name, the discovery URL, and the trigger for new objects."""

    def __init__(
        self,
        shared: SharedResources,
        lake: LakeBuckets,
        catalog: Catalog,
        brokers: BrokerService,
        balancer: LoadBalancer,
        spark: SparkApplication,
        parent: Deployment,
    ) -> None:
        super().__init__("Functions", parent)
        self._shared = shared
        self._lake = lake
        self.failed_calls = aws.sqs.Queue(
            "failed-calls",
            name=self.named("failed-calls"),
            message_retention_seconds=14 * 86_400,
            sqs_managed_sse_enabled=True,
            opts=self.within(),
        )
        specs = [
            self._discovery(brokers, balancer),
            self._analytics(spark),
            self._catalog(catalog),
            self._janitor(),
            self._scaler(),
        ]
        self.by_name = {
            # New functions may use what only new brokers have, never the other way around.
            spec.name: LambdaFunction(
                self,
                spec,
                lake.work,
                shared.keys.operations.arn,
                self.failed_calls,
                brokers.service,
            )
            for spec in specs
        }
        self.url = aws.lambda_.FunctionUrl(
            "discovery",
            function_name=self.by_name["discovery"].function.name,
            # Callers sign their requests with their own AWS identity.
            authorization_type="AWS_IAM",
            opts=self.within(),
        )
        self._call_catalog_for_new_objects()
        self.register_outputs({"discovery": self.url.function_url})

    def _discovery(self, brokers: BrokerService, balancer: LoadBalancer) -> FunctionSpec:
        shared = self._shared
        token = shared.keys.token.arn
        return FunctionSpec(
            name="discovery",
            description="Discovery and administration over HTTP, for callers outside the VPC",
            seconds=30,
            memory=512,
            environment={
                "SULINA_BROKERS": brokers.internal_url,
                **(
                    {"SULINA_BROKERS_CA": shared.certificates.trusted}
                    if shared.certificates
                    else {}
                ),
                "SULINA_TOKEN_SECRET": token,
                "SULINA_URL": balancer.url(ports.BINARY),
                "SULINA_GRPC_URL": balancer.url(ports.GRPC),
                "SULINA_HTTP_URL": balancer.url(ports.HTTP),
                "SULINA_READ_ONLY": "yes" if self.settings.discovery_read_only else "no",
            },
            permissions=shared.keys.may_read([token]),
            network={
                "subnet_ids": [subnet.id for subnet in shared.network.work],
                "security_group_ids": [shared.firewall.group_id("functions")],
            },
        )

    def _analytics(self, spark: SparkApplication) -> FunctionSpec:
        application = spark.application.arn
        lake, work = self._lake.lake.name, self._lake.work.name
        return FunctionSpec(
            name="analytics",
            description="Starts Spark jobs, at most one run of a job at a time",
            seconds=60,
            memory=256,
            environment={
                "SULINA_EMR_APPLICATION": spark.application.id,
                "SULINA_JOB_ROLE": spark.role.arn,
                "SULINA_JOBS": f"s3://{work}/{JOBS}".rstrip("/"),
                "SULINA_JOB_LOGS": f"s3://{work}/{JOB_LOGS}".rstrip("/"),
                "SULINA_LAKE": self._lake.url,
                "SULINA_TABLES": f"s3://{lake}/{TABLES}".rstrip("/"),
            },
            permissions=[
                allow(
                    "Start",
                    ["emr-serverless:StartJobRun", "emr-serverless:ListJobRuns"],
                    [application],
                ),
                allow(
                    "Follow",
                    ["emr-serverless:GetJobRun", "emr-serverless:CancelJobRun"],
                    [pulumi.Output.concat(application, "/jobruns/*")],
                ),
                allow(
                    "PassRole",
                    ["iam:PassRole"],
                    [spark.role.arn],
                    {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
                ),
            ],
        )

    def _catalog(self, catalog: Catalog) -> FunctionSpec:
        return FunctionSpec(
            name="catalog",
            description="Adds new objects to the tables of topics, and forgets old snapshots",
            seconds=900,
            memory=1024,
            environment={
                "SULINA_LAKE": self._lake.url,
                "SULINA_DATABASE": catalog.database_name,
                "SULINA_METRICS": NAMESPACE,
            },
            permissions=[
                *self._lake.read("Ledgers", self._lake.lake, LEDGERS),
                *self._lake.write("Metadata", self._lake.lake, ICEBERG),
                catalog.may_commit(),
                _may_publish(),
            ],
        )

    def _janitor(self) -> FunctionSpec:
        return FunctionSpec(
            name="janitor",
            description="Finds unreferenced objects, aborts old uploads, starts audits",
            seconds=900,
            memory=512,
            environment={
                "SULINA_LAKE": self._lake.url,
                "SULINA_DISCOVERY": self.named("discovery"),
                "SULINA_ANALYTICS": self.named("analytics"),
                "SULINA_DELETE_ORPHANS": "yes" if self.settings.delete_orphans else "no",
            },
            permissions=[
                *self._lake.write("Ledgers", self._lake.lake, LEDGERS),
                self._may_call("discovery", "analytics"),
            ],
        )

    def _scaler(self) -> FunctionSpec:
        return FunctionSpec(
            name="scaler",
            description="Publishes the brokers' load to CloudWatch",
            seconds=50,
            memory=256,
            environment={
                "SULINA_DISCOVERY": self.named("discovery"),
                "SULINA_METRICS": NAMESPACE,
            },
            permissions=[
                _may_publish(),
                self._may_call("discovery"),
            ],
        )

    def _may_call(self, *names: str) -> Statement:
        arns = [self.region.arn("lambda", f"function:{self.named(name)}") for name in names]
        return allow("Call", ["lambda:InvokeFunction"], arns)

    def _call_catalog_for_new_objects(self) -> None:
        catalog, lake = self.by_name["catalog"].function, self._lake.lake
        permission = aws.lambda_.Permission(
            "catalog",
            action="lambda:InvokeFunction",
            function=catalog.name,
            principal="s3.amazonaws.com",
            source_arn=lake.arn,
            source_account=self.region.account,
            opts=self.within(),
        )
        aws.s3.BucketNotification(
            "catalog",
            bucket=lake.bucket.id,
            lambda_functions=[
                {
                    "lambda_function_arn": catalog.arn,
                    "events": ["s3:ObjectCreated:*"],
                    "filter_prefix": LEDGERS,
                    "filter_suffix": ".parquet",
                }
            ],
            opts=self.within(depends_on=[permission]),
        )


def _may_publish() -> Statement:
    only = {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}
    return allow_any_resource("Metrics", ["cloudwatch:PutMetricData"], only)
