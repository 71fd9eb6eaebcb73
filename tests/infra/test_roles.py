"""What each role may do, by evaluation: its work, and nothing more."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from infra.artifacts import FUNCTIONS
from tests.infra.graph import Graph
from tests.infra.policy import IamPolicy

ACCOUNT = "123456789012"
REGION = "eu-central-1"
LAKE = f"arn:aws:s3:::sulina-prod-lake-{ACCOUNT}-{REGION}"
WORK = f"arn:aws:s3:::sulina-prod-work-{ACCOUNT}-{REGION}"
LEDGER = f"{LAKE}/ledgers/namespace=default/topic=orders/partition=0/1-2.parquet"
METADATA = f"{LAKE}/iceberg/default__orders/metadata/1.metadata.json"
JOB_TABLE = f"arn:aws:glue:{REGION}:{ACCOUNT}:table/sulina_prod_jobs/customers_latest"
TABLE = f"arn:aws:glue:{REGION}:{ACCOUNT}:table/sulina_prod/default__orders"
THROUGH_S3 = {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}

ROLES = {
    "etcd-machine": "ec2.amazonaws.com",
    "etcd-execution": "ecs-tasks.amazonaws.com",
    "etcd-task": "ecs-tasks.amazonaws.com",
    "etcd-backup": "dlm.amazonaws.com",
    "storage-machine": "ec2.amazonaws.com",
    "storage-execution": "ecs-tasks.amazonaws.com",
    "storage-task": "ecs-tasks.amazonaws.com",
    "broker-execution": "ecs-tasks.amazonaws.com",
    "broker-task": "ecs-tasks.amazonaws.com",
    "job": "emr-serverless.amazonaws.com",
    **dict.fromkeys(FUNCTIONS, "lambda.amazonaws.com"),
    "schedules": "scheduler.amazonaws.com",
}


def arn(service: str, resource: str) -> str:
    return f"arn:aws:{service}:{REGION}:{ACCOUNT}:{resource}"


def test_there_is_one_role_for_each_part(prod: Graph) -> None:
    assert set(prod.roles()) == set(ROLES)


@pytest.mark.parametrize("role", ROLES)
def test_a_role_can_be_taken_by_its_own_service_alone(prod: Graph, role: str) -> None:
    trust = prod.trust(role)
    sources = {
        "ecs-tasks.amazonaws.com": arn("ecs", "task/sulina-prod-cluster/1"),
        "dlm.amazonaws.com": arn("dlm", "policy/1"),
        "emr-serverless.amazonaws.com": arn("emr-serverless", "/applications/1/jobruns/1"),
        "scheduler.amazonaws.com": arn("scheduler", "schedule-group/sulina-prod"),
    }
    facts = {"aws:SourceAccount": ACCOUNT, "aws:SourceArn": sources.get(ROLES[role], "")}
    for service in set(ROLES.values()):
        taken = trust.allows("sts:AssumeRole", "", facts, ("Service", service))
        assert taken == (service == ROLES[role])
    assert not trust.allows("sts:AssumeRole", "", facts, ("AWS", f"arn:aws:iam::{ACCOUNT}:root"))
    if ROLES[role] in sources:
        stranger = {**facts, "aws:SourceAccount": "999999999999"}
        assert not trust.allows("sts:AssumeRole", "", stranger, ("Service", ROLES[role]))


@pytest.mark.parametrize("stack", ["dev", "prod", "public"])
def test_no_policy_has_a_star_where_something_narrower_exists(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    # AWS defines no resource for these: Describe and network interfaces of Lambda, the login to
    # ECR, the endpoint of ECS's agent, metrics (held by their namespace), shells.
    anywhere = {
        "cloudwatch:PutMetricData",
        "ec2:CreateNetworkInterface",
        "ec2:DeleteNetworkInterface",
        "ec2:DescribeNetworkInterfaces",
        "ec2:DescribeSnapshots",
        "ec2:DescribeVolumes",
        "ecr:GetAuthorizationToken",
        "ecs:DiscoverPollEndpoint",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
    }
    graph = graph_of(stack)
    for made in graph.all("iam/rolePolicy:RolePolicy"):
        for statement in IamPolicy.of(made.inputs["policy"]).statements:
            for action in statement.actions:
                assert "*" not in action, f"{made.name} {statement.sid}"
            if statement.effect == "Allow" and "*" in statement.resources:
                assert set(statement.actions) <= anywhere, f"{made.name} {statement.sid}"


def test_nobody_but_storage_and_the_janitor_can_touch_a_ledger(prod: Graph) -> None:
    for role in ROLES:
        may = prod.policy(role)
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert may.allows(action, LEDGER) == (role in ("storage-task", "janitor")), role
        reads = role in ("storage-task", "janitor", "catalog", "job")
        assert may.allows("s3:GetObject", LEDGER) == reads, role


def test_storage_nodes_can_do_all_that_the_tier_does_and_only_below_ledgers(prod: Graph) -> None:
    may = prod.policy("storage-task")
    key = prod.one("kms/key:Key", "data").arn
    for action in (
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    ):
        assert may.allows(action, LEDGER)
        assert not may.allows(action, f"{LAKE}/tables/x")
        assert not may.allows(action, f"{WORK}/jobs/x")
    assert may.allows("s3:ListBucketMultipartUploads", LAKE)
    assert may.allows("s3:ListBucket", LAKE, {"s3:prefix": "ledgers/namespace=default/"})
    assert may.allows("s3:ListBucket", LAKE)  # else S3 says 403 of an object that does not exist
    assert may.allows("kms:GenerateDataKey", key, THROUGH_S3)
    assert not may.allows("kms:GenerateDataKey", key)
    assert not may.allows("s3:DeleteBucket", LAKE)
    assert not may.allows("s3:PutBucketPolicy", LAKE)


def test_brokers_have_no_rights_of_their_own_and_only_their_start_reads_the_token(
    prod: Graph,
) -> None:
    token = prod.one("secretsmanager/secret:Secret", "token").arn
    assert not prod.policy("broker-task").statements
    for role in ROLES:
        reads = prod.policy(role).allows("secretsmanager:GetSecretValue", token)
        assert reads == (role in ("broker-execution", "discovery")), role
    assert not prod.policy("broker-execution").allows(
        "secretsmanager:GetSecretValue", arn("secretsmanager", "secret:other")
    )


def test_certificates_are_read_by_the_start_of_their_own_part_alone(prod: Graph) -> None:
    through = {"kms:ViaService": f"secretsmanager.{REGION}.amazonaws.com"}
    operations = prod.one("kms/key:Key", "operations").arn
    secrets = [
        made
        for made in prod.all("secretsmanager/secret:Secret")
        if made.name.startswith("internal-")
    ]
    assert len(secrets) == 7
    for made in secrets:
        part = made.name.split("-")[1]
        for role in ROLES:
            reads = prod.policy(role).allows("secretsmanager:GetSecretValue", made.arn)
            assert reads == (role == f"{part}-execution"), f"{role} {made.name}"
        start = prod.policy(f"{part}-execution")
        assert start.allows("kms:Decrypt", operations, through)
        assert not start.allows("kms:Decrypt", operations)


@pytest.mark.parametrize("part", ["etcd", "storage", "broker"])
def test_a_part_is_started_from_its_own_image_into_its_own_log(prod: Graph, part: str) -> None:
    may = prod.policy(f"{part}-execution")
    for other in ("etcd", "storage", "broker"):
        repository = arn("ecr", f"repository/sulina-prod/{other}")
        stream = arn("logs", f"log-group:/sulina-prod/{other}:log-stream:x")
        # The containers beside a member of etcd have the storage node's image.
        pulled = other == part or (part, other) == ("etcd", "storage")
        assert may.allows("ecr:BatchGetImage", repository) == pulled
        assert may.allows("logs:PutLogEvents", stream) == (other == part)
    assert not may.allows("ecr:PutImage", arn("ecr", f"repository/sulina-prod/{part}"))
    assert not may.allows("logs:CreateLogGroup", arn("logs", "log-group:x"))


def test_machines_can_join_their_cluster_and_no_other(prod: Graph) -> None:
    may = prod.policy("storage-machine")
    ours, other = (arn("ecs", f"cluster/{name}") for name in ("sulina-prod-cluster", "other"))
    assert may.allows("ecs:RegisterContainerInstance", ours)
    assert not may.allows("ecs:RegisterContainerInstance", other)
    instance = arn("ecs", "container-instance/sulina-prod-cluster/1")
    assert may.allows("ecs:Poll", instance, {"ecs:cluster": ours})
    assert not may.allows("ecs:Poll", instance, {"ecs:cluster": other})
    assert not may.allows("ec2:AttachVolume", arn("ec2", "volume/vol-1"))
    assert not may.allows("s3:GetObject", LEDGER)


def test_jobs_read_ledgers_write_tables_and_leave_the_rest_alone(prod: Graph) -> None:
    may = prod.policy("job")
    assert may.allows("s3:PutObject", f"{LAKE}/tables/orders/1.parquet")
    assert may.allows("s3:GetObject", f"{WORK}/jobs/audit.py")
    assert not may.allows("s3:PutObject", f"{WORK}/jobs/audit.py")
    assert may.allows("s3:PutObject", f"{WORK}/job-logs/1")
    assert may.allows("s3:GetObject", METADATA)
    assert not may.allows("s3:PutObject", METADATA)
    assert not may.allows("s3:DeleteObject", METADATA)
    assert may.allows("glue:GetTable", TABLE)
    assert not may.allows("glue:GetTable", arn("glue", "table/other/default__orders"))


def test_the_analytics_function_starts_jobs_of_our_application_with_our_role(prod: Graph) -> None:
    may = prod.policy("analytics")
    ours = prod.one("emrserverless/application:Application", "spark").arn
    job = prod.one("iam/role:Role", "job").arn
    to_emr = {"iam:PassedToService": "emr-serverless.amazonaws.com"}
    assert may.allows("emr-serverless:StartJobRun", ours)
    assert not may.allows("emr-serverless:StartJobRun", arn("emr-serverless", "/applications/x"))
    assert not may.allows("emr-serverless:DeleteApplication", ours)
    assert may.allows("emr-serverless:CancelJobRun", f"{ours}/jobruns/1")
    assert may.allows("iam:PassRole", job, to_emr)
    assert not may.allows("iam:PassRole", job, {"iam:PassedToService": "ec2.amazonaws.com"})
    assert not may.allows("iam:PassRole", prod.one("iam/role:Role", "janitor").arn, to_emr)


def test_only_the_catalog_function_commits_to_tables_and_it_deletes_none(prod: Graph) -> None:
    for role in ROLES:
        may = prod.policy(role)
        for action in ("glue:CreateTable", "glue:UpdateTable"):
            assert may.allows(action, TABLE) == (role == "catalog"), role
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert may.allows(action, METADATA) == (role == "catalog"), role
        assert not may.allows("glue:DeleteTable", TABLE), role
        assert not may.allows("glue:DeleteDatabase", arn("glue", "database/sulina_prod")), role
    assert not prod.policy("catalog").allows("glue:UpdateTable", arn("glue", "table/other/x"))


def test_jobs_merge_into_tables_of_their_own_database_and_delete_none(prod: Graph) -> None:
    made = prod.one("glue/catalogDatabase:CatalogDatabase", "job-database")
    assert made.inputs["locationUri"] == f"{LAKE}/tables".replace("arn:aws:s3:::", "s3://")
    assert prod.outputs["jobDatabase"] == made.inputs["name"] == "sulina_prod_jobs"
    for role in ROLES:
        may = prod.policy(role)
        for action in ("glue:CreateTable", "glue:UpdateTable"):
            assert may.allows(action, JOB_TABLE) == (role == "job"), role
        assert not may.allows("glue:DeleteTable", JOB_TABLE), role
    job = prod.policy("job")
    for action in ("glue:GetDatabase", "glue:UpdateTable", "glue:CreateTable"):
        assert job.allows(action, arn("glue", "database/sulina_prod_jobs"))
        assert job.allows(action, arn("glue", "catalog"))
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert job.allows(action, f"{LAKE}/tables/customers_latest/metadata/1.metadata.json")


def test_analysts_query_topics_and_change_nothing(prod: Graph) -> None:
    may = IamPolicy.of(prod.one("iam/policy:Policy", "analysts").inputs["policy"])
    assert prod.outputs["analystPolicy"] == prod.one("iam/policy:Policy", "analysts").arn
    for where in (LEDGER, METADATA, f"{LAKE}/tables/statistics/1.parquet"):
        assert may.allows("s3:GetObject", where)
        for action in ("s3:PutObject", "s3:DeleteObject"):
            assert not may.allows(action, where)
    assert may.allows("s3:PutObject", f"{WORK}/athena/1.csv")
    assert not may.allows("s3:GetObject", f"{WORK}/jobs/audit.py")
    for table in (TABLE, JOB_TABLE):
        assert may.allows("glue:GetTable", table)
        for action in ("glue:CreateTable", "glue:UpdateTable", "glue:DeleteTable"):
            assert not may.allows(action, table)
    ours = arn("athena", "workgroup/sulina-prod")
    assert may.allows("athena:StartQueryExecution", ours)
    assert not may.allows("athena:StartQueryExecution", arn("athena", "workgroup/primary"))


def test_the_lake_lets_nobody_but_its_owners_delete_a_ledger(prod: Graph) -> None:
    bucket = prod.one("s3/bucketPolicy:BucketPolicy", "lake").inputs["policy"]
    anything = {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Principal": "*"}
    may = IamPolicy.of(bucket, json.dumps({"Statement": [anything]}))
    owners = {prod.one("iam/role:Role", name).arn for name in ("storage-task", "janitor")}
    others = {prod.one("iam/role:Role", name).arn for name in ROLES} - owners
    for principal in (*owners, *others, "arn:aws:iam::123456789012:user/administrator"):
        facts = {"aws:PrincipalArn": principal, "aws:SecureTransport": "true"}
        for action in ("s3:DeleteObject", "s3:DeleteObjectVersion"):
            assert may.allows(action, LEDGER, facts) == (principal in owners), principal
            assert may.allows(action, f"{LAKE}/tables/1", facts)
        assert may.allows("s3:GetObject", LEDGER, facts)
    assert not may.allows("s3:DeleteObject", LEDGER, {"aws:SecureTransport": "true"})


def test_the_scaler_writes_metrics_of_sulina_only(prod: Graph) -> None:
    may = prod.policy("scaler")
    assert may.allows("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "Sulina"})
    assert not may.allows("cloudwatch:PutMetricData", "*", {"cloudwatch:namespace": "AWS/EC2"})
    assert may.allows("lambda:InvokeFunction", arn("lambda", "function:sulina-prod-discovery"))
    assert not may.allows("lambda:InvokeFunction", arn("lambda", "function:sulina-prod-janitor"))
    assert not may.allows("ecs:UpdateService", arn("ecs", "service/x"))


def test_lambda_plugs_discovery_into_the_network_but_its_code_can_not(prod: Graph) -> None:
    may = prod.policy("discovery")
    function = {"lambda:SourceFunctionArn": arn("lambda", "function:sulina-prod-discovery")}
    assert may.allows("ec2:CreateNetworkInterface", "*")
    assert not may.allows("ec2:CreateNetworkInterface", "*", function)


def test_copies_are_made_of_tagged_volumes_only(prod: Graph) -> None:
    may, volume = prod.policy("etcd-backup"), arn("ec2", "volume/vol-1")
    ours = {"aws:ResourceTag/Backup": "sulina-prod-etcd"}
    assert may.allows("ec2:CreateSnapshot", volume, ours)
    assert not may.allows("ec2:CreateSnapshot", volume)
    assert not may.allows("ec2:DeleteSnapshot", f"arn:aws:ec2:{REGION}::snapshot/snap-1")
    tags = prod.one("ebs/volume:Volume", "etcd-1").inputs["tags"]
    assert tags["Backup"] == "sulina-prod-etcd"
    assert prod.one("ebs/volume:Volume", "storage-1").inputs["tags"]["Backup"] == "no"


def test_buckets_refuse_plain_http_from_everybody(prod: Graph) -> None:
    for made in prod.all("s3/bucketPolicy:BucketPolicy"):
        policy = json.loads(made.inputs["policy"])
        assert {each["Effect"] for each in policy["Statement"]} == {"Deny"}
        everything = {**policy["Statement"][0], "Effect": "Allow", "Condition": {}}
        with_all = IamPolicy.of(json.dumps({"Statement": [*policy["Statement"], everything]}))
        where = f"{LAKE if made.name == 'lake' else WORK}/x"
        for secure in ("true", "false"):
            facts = {"aws:SecureTransport": secure}
            assert with_all.allows("s3:GetObject", where, facts) == (secure == "true")


def test_the_key_of_logs_serves_our_groups_and_the_key_of_data_no_service(prod: Graph) -> None:
    logs = ("Service", f"logs.{REGION}.amazonaws.com")
    context = "kms:EncryptionContext:aws:logs:arn"
    operations = IamPolicy.of(prod.one("kms/key:Key", "operations").inputs["policy"])
    ours = {context: arn("logs", "log-group:/sulina-prod/broker")}
    for action in ("GenerateDataKey", "ReEncryptFrom", "ReEncryptTo"):
        assert operations.allows(f"kms:{action}", "*", ours, logs)
    other = {context: arn("logs", "log-group:/other")}
    assert not operations.allows("kms:GenerateDataKey", "*", other, logs)
    data = IamPolicy.of(prod.one("kms/key:Key", "data").inputs["policy"])
    assert not data.allows("kms:Decrypt", "*", ours, logs)


def test_the_way_to_s3_leads_to_our_buckets_and_the_layers_of_images(prod: Graph) -> None:
    policy = IamPolicy.of(prod.one("ec2/vpcEndpoint:VpcEndpoint", "s3").inputs["policy"])
    layers = f"arn:aws:s3:::prod-{REGION}-starport-layer-bucket/x"
    assert policy.allows("s3:PutObject", LEDGER)
    assert policy.allows("s3:GetObject", layers)
    assert not policy.allows("s3:PutObject", layers)
    assert not policy.allows("s3:PutObject", "arn:aws:s3:::somebody-elses/x")


def test_emr_writes_its_logs_through_the_way_to_s3(prod: Graph, public: Graph) -> None:
    logs = f"arn:aws:s3:::prod.{REGION}.appinfo.src/x"
    for graph, spark in ((prod, True), (public, False)):
        policy = IamPolicy.of(graph.one("ec2/vpcEndpoint:VpcEndpoint", "s3").inputs["policy"])
        assert policy.allows("s3:PutObject", logs) is spark
        assert not policy.allows("s3:GetObject", logs)


def test_a_rule_publishes_to_the_encrypted_topic_without_saying_for_whom(prod: Graph) -> None:
    topic = prod.one("sns/topic:Topic", "alarms").arn
    policy = IamPolicy.of(prod.one("sns/topicPolicy:TopicPolicy", "alarms").inputs["policy"])
    key = IamPolicy.of(prod.one("kms/key:Key", "operations").inputs["policy"])
    rules, alarms = (("Service", f"{each}.amazonaws.com") for each in ("events", "cloudwatch"))
    assert policy.allows("sns:Publish", topic, principal=rules)
    assert key.allows("kms:GenerateDataKey", "*", principal=rules)
    assert not policy.allows("sns:Publish", topic, principal=alarms)
    ours = {"aws:SourceAccount": "123456789012"}
    assert policy.allows("sns:Publish", topic, ours, alarms)
    assert key.allows("kms:GenerateDataKey", "*", ours, alarms)


def test_whoever_uses_a_role_depends_on_its_permissions(prod: Graph) -> None:
    """So a function is deleted before the permission to remove its network interfaces."""
    permissions = {made.name: made.urn for made in prod.all("iam/rolePolicy:RolePolicy")}
    roles = {made.urn: made.name for made in prod.all("iam/role:Role")}
    inputs = ("role", "roleArn", "executionRoleArn", "taskRoleArn")
    users = [made for made in prod.resources if set(inputs) & made.uses.keys()]
    assert {made.kind for made in users} >= {
        "aws:lambda/function:Function",
        "aws:ecs/taskDefinition:TaskDefinition",
        "aws:iam/instanceProfile:InstanceProfile",
    }
    for made in users:
        if made.kind == "aws:iam/rolePolicy:RolePolicy":
            continue
        for name in set(inputs) & made.uses.keys():
            for role in set(made.uses[name]) & roles.keys():
                wanted = permissions.get(roles[role])
                assert wanted is None or wanted in made.uses[name], f"{made} {name}"
