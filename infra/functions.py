"""The Lambda functions: what each is for, what it is told, what it may do.

Only ``discovery`` is inside the network; the others ask it about the cluster. docs/deploy.md has
their environment and events as a contract.
"""

from __future__ import annotations

import pulumi
import pulumi_aws as aws

from infra import ports
from infra.analytics import Analytics
from infra.balancer import Balancer
from infra.brokers import Brokers
from infra.catalogue import Catalogue
from infra.figures import NAMESPACE
from infra.function import Function, Plan
from infra.ground import Ground
from infra.lake import JOB_LOGS, JOBS, LEDGERS, TABLES, LakeBuckets
from infra.policies import Statement, allow, anywhere
from infra.tier import Tier


class Functions(Tier):
    """All functions, by name, and what calls them."""

    def __init__(
        self,
        ground: Ground,
        lake: LakeBuckets,
        catalogue: Catalogue,
        brokers: Brokers,
        balancer: Balancer,
        analytics: Analytics,
        parent: pulumi.Resource,
    ) -> None:
        super().__init__("Functions", ground.settings, ground.place, parent)
        self._ground = ground
        self._lake = lake
        self.failed = aws.sqs.Queue(
            "failed",
            name=self.named("failed-calls"),
            message_retention_seconds=14 * 86_400,
            sqs_managed_sse_enabled=True,
            opts=self.within(),
        )
        plans = [
            self._discovery(brokers, balancer),
            self._analytics(analytics),
            self._catalog(catalogue),
            self._janitor(catalogue),
            self._scaler(),
        ]
        self.all = {
            plan.name: Function(self, plan, ground.keys.operations.arn, self.failed)
            for plan in plans
        }
        self.url = aws.lambda_.FunctionUrl(
            "discovery",
            function_name=self.all["discovery"].function.name,
            # Callers sign their requests with their own AWS identity.
            authorization_type="AWS_IAM",
            opts=self.within(),
        )
        self._on_new_objects()
        self.register_outputs({"discovery": self.url.function_url})

    def _discovery(self, brokers: Brokers, balancer: Balancer) -> Plan:
        keys, place, ground = self._ground.keys, self.place, self._ground
        token = keys.token
        through = {
            "StringEquals": {"kms:ViaService": f"secretsmanager.{place.region}.amazonaws.com"}
        }
        return Plan(
            name="discovery",
            what="Discovery and administration over HTTP, for callers outside the network",
            seconds=30,
            memory=512,
            environment={
                "SULINA_BROKERS": brokers.internal_url,
                "SULINA_TOKEN_SECRET": token.arn,
                "SULINA_URL": balancer.url(ports.BINARY),
                "SULINA_GRPC_URL": balancer.url(ports.GRPC),
                "SULINA_HTTP_URL": balancer.url(ports.HTTP),
            },
            may=[
                allow("Token", ["secretsmanager:GetSecretValue"], [token.arn]),
                allow("TokenKey", ["kms:Decrypt"], [keys.operations.arn], through),
            ],
            network={
                "subnet_ids": [subnet.id for subnet in ground.network.work],
                "security_group_ids": [ground.firewall.group("functions")],
            },
        )

    def _analytics(self, analytics: Analytics) -> Plan:
        application = analytics.application.arn
        lake, work = self._lake.lake.name, self._lake.work.name
        return Plan(
            name="analytics",
            what="Starts Spark jobs, never the same one twice at a time",
            seconds=60,
            memory=256,
            environment={
                "SULINA_EMR_APPLICATION": analytics.application.id,
                "SULINA_JOB_ROLE": analytics.role.arn,
                "SULINA_JOBS": f"s3://{work}/{JOBS}".rstrip("/"),
                "SULINA_JOB_LOGS": f"s3://{work}/{JOB_LOGS}".rstrip("/"),
                "SULINA_LAKE": self._lake.url,
                "SULINA_TABLES": f"s3://{lake}/{TABLES}".rstrip("/"),
            },
            may=[
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
                    "HandOver",
                    ["iam:PassRole"],
                    [analytics.role.arn],
                    {"StringEquals": {"iam:PassedToService": "emr-serverless.amazonaws.com"}},
                ),
            ],
        )

    def _catalog(self, catalogue: Catalogue) -> Plan:
        return Plan(
            name="catalog",
            what="Registers the partition of a new object, after a look at the object",
            seconds=60,
            memory=512,
            environment={
                "SULINA_LAKE": self._lake.url,
                "SULINA_GLUE_DATABASE": catalogue.database_name,
                "SULINA_GLUE_TABLE": catalogue.table_name,
            },
            may=[
                *self._lake.read("Ledgers", self._lake.lake, LEDGERS),
                allow(
                    "Partitions",
                    ["glue:GetTable", "glue:GetPartition", "glue:CreatePartition"],
                    catalogue.arns(),
                ),
            ],
        )

    def _janitor(self, catalogue: Catalogue) -> Plan:
        return Plan(
            name="janitor",
            what="Finds objects that no topic knows, ends old uploads, asks for audits",
            seconds=900,
            memory=512,
            environment={
                "SULINA_LAKE": self._lake.url,
                "SULINA_GLUE_DATABASE": catalogue.database_name,
                "SULINA_GLUE_TABLE": catalogue.table_name,
                "SULINA_DISCOVERY": self.named("discovery"),
                "SULINA_ANALYTICS": self.named("analytics"),
            },
            may=[
                *self._lake.write("Ledgers", self._lake.lake, LEDGERS),
                allow(
                    "Partitions",
                    [
                        "glue:GetTable",
                        "glue:GetPartition",
                        "glue:GetPartitions",
                        # One that an object needs after all is put back.
                        "glue:CreatePartition",
                        "glue:DeletePartition",
                    ],
                    catalogue.arns(),
                ),
                self._may_call("discovery", "analytics"),
            ],
        )

    def _scaler(self) -> Plan:
        only = {"StringEquals": {"cloudwatch:namespace": NAMESPACE}}
        return Plan(
            name="scaler",
            what="Tells CloudWatch the load that the load manager sees",
            seconds=50,
            memory=256,
            environment={
                "SULINA_DISCOVERY": self.named("discovery"),
                "SULINA_METRICS": NAMESPACE,
            },
            may=[
                anywhere("Metrics", ["cloudwatch:PutMetricData"], only),
                self._may_call("discovery"),
            ],
        )

    def _may_call(self, *names: str) -> Statement:
        arns = [self.place.arn("lambda", f"function:{self.named(name)}") for name in names]
        return allow("Call", ["lambda:InvokeFunction"], arns)

    def _on_new_objects(self) -> None:
        catalog, lake = self.all["catalog"].function, self._lake.lake
        permission = aws.lambda_.Permission(
            "catalog",
            action="lambda:InvokeFunction",
            function=catalog.name,
            principal="s3.amazonaws.com",
            source_arn=lake.arn,
            source_account=self.place.account,
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
