"""The graph of the program: names, tags, encryption, protection, and what belongs together."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from infra.artifacts import FUNCTIONS
from localstack.deployment.stack_files import ROOT
from tests.infra.graph import Graph
from tests.infra.policy import IamPolicy

FOLDERS = {"sulina", "broker_containers", "storage_grpc", "emr_jobs", "functions", "localstack"}
STACKS = ("dev", "prod", "localstack")


@pytest.mark.parametrize("stack", STACKS)
def test_everything_that_can_have_tags_has_them(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    for made in graph_of(stack).resources:
        if made.taggable:
            tags = made.inputs["tags"]
            assert (tags["Project"], tags["Stack"], tags["ManagedBy"]) == (
                "sulina",
                stack,
                "pulumi",
            ), str(made)
            assert tags["Name"], str(made)
            assert tags["Owner"], str(made)


@pytest.mark.parametrize("stack", STACKS)
def test_no_argument_is_unknown_to_the_provider(
    graph_of: Callable[[str], Graph], stack: str
) -> None:
    # Pulumi turns the names that it knows into camelCase, and passes others on as they are.
    for made in graph_of(stack).resources:
        for name in _names(made.inputs):
            assert not re.search(r"[a-z]_[a-z]", name), f"{made} has no {name}"


def _names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield name
            if name not in ("tags", "variables", "parameters"):
                yield from _names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _names(inner)


def test_the_program_imports_none_of_the_parts_that_it_deploys() -> None:
    for path in (ROOT / "infra").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            else:
                continue
            assert not {name.partition(".")[0] for name in names} & FOLDERS, path.name


def test_names_of_resources_begin_with_the_stack(prod: Graph) -> None:
    named = [
        made
        for made in prod.resources
        if made.kind.startswith("aws:") and isinstance(made.inputs.get("name"), str)
    ]
    others = {
        "aws:iam/rolePolicy:RolePolicy",
        "aws:scheduler/schedule:Schedule",  # within a group that has the name
        "aws:route53/record:Record",
        "aws:servicediscovery/privateDnsNamespace:PrivateDnsNamespace",
        "aws:servicediscovery/service:Service",
    }
    for made in named:
        if made.kind not in others:
            assert re.match(r"(alias)?/?sulina[-_]prod", made.inputs["name"]), str(made)


def test_whatever_keeps_data_is_encrypted_with_our_key(prod: Graph) -> None:
    key = prod.one("kms/key:Key", "data").arn
    operations = prod.one("kms/key:Key", "operations").arn
    for volume in prod.all("ebs/volume:Volume"):
        assert (volume.inputs["encrypted"], volume.inputs["kmsKeyId"]) == (True, key)
    for machine in prod.all("ec2/instance:Instance"):
        assert machine.inputs["rootBlockDevice"]["encrypted"]
    buckets = {made.id for made in prod.all("s3/bucket:Bucket")}
    kind = "s3/bucketServerSideEncryptionConfiguration:BucketServerSideEncryptionConfiguration"
    for rule in prod.all(kind):
        chosen = rule.inputs["rules"][0]["applyServerSideEncryptionByDefault"]
        assert chosen == {"sseAlgorithm": "aws:kms", "kmsMasterKeyId": key}
        buckets.remove(rule.inputs["bucket"])
    assert not buckets
    for repository in prod.all("ecr/repository:Repository"):
        assert repository.inputs["encryptionConfigurations"][0]["kmsKey"] == key
    for log in prod.all("cloudwatch/logGroup:LogGroup"):
        assert log.inputs["kmsKeyId"] == operations
        assert log.inputs["retentionInDays"] == 90
    for secret in prod.all("secretsmanager/secret:Secret"):
        assert secret.inputs["kmsKeyId"] == operations
    assert prod.one("sns/topic:Topic", "alarms").inputs["kmsMasterKeyId"] == operations
    assert prod.one("sqs/queue:Queue", "failed-calls").inputs["sqsManagedSseEnabled"]
    for made in prod.all("kms/key:Key"):
        assert made.inputs["enableKeyRotation"]


def test_secrets_can_be_recovered_where_data_is_protected_and_are_gone_at_once_elsewhere(
    prod: Graph, dev: Graph
) -> None:
    """While a deleted secret can be recovered, `pulumi up` cannot create one of the same name."""
    for graph, days in ((prod, 7), (dev, 0)):
        secrets = graph.all("secretsmanager/secret:Secret")
        assert {made.inputs["recoveryWindowInDays"] for made in secrets} == {days}
    assert len(prod.all("secretsmanager/secret:Secret")) > 1


def test_names_that_ecs_registers_are_deleted_with_what_is_left_in_them(prod: Graph) -> None:
    names = prod.all("servicediscovery/service:Service")
    assert len(names) == 7
    assert all(made.inputs["forceDestroy"] for made in names)


@pytest.mark.parametrize("plan", ["prod", "dev", "public", "longest"])
def test_no_private_key_is_in_the_state_in_plain_text(
    graph_of: Callable[[str], Graph], plan: str
) -> None:
    graph = graph_of(plan)
    assert not graph.exposed
    for key in graph.all("tls:index/privateKey:PrivateKey"):
        assert {"privateKeyPem", "privateKeyPemPkcs8"} <= set(key.options["secret_outputs"])


def test_no_bucket_can_become_public_and_uploads_that_were_given_up_go(prod: Graph) -> None:
    guarded = {
        made.name: made for made in prod.all("s3/bucketPublicAccessBlock:BucketPublicAccessBlock")
    }
    rules = {
        made.name: made.inputs["rules"]
        for made in prod.all("s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration")
    }
    for bucket in prod.all("s3/bucket:Bucket"):
        guard = guarded[bucket.name].inputs
        assert all(
            guard[name]
            for name in (
                "blockPublicAcls",
                "blockPublicPolicy",
                "ignorePublicAcls",
                "restrictPublicBuckets",
            )
        )
        aborts = [
            rule["abortIncompleteMultipartUpload"]
            for rule in rules[bucket.name]
            if "abortIncompleteMultipartUpload" in rule
        ]
        assert aborts == [{"daysAfterInitiation": 2}]


def test_deleted_ledgers_can_be_brought_back_in_prod_and_cost_nothing_in_dev(
    dev: Graph, prod: Graph
) -> None:
    kind = "s3/bucketVersioning:BucketVersioning"
    assert [made.name for made in prod.all(kind)] == ["lake"]
    assert not dev.all(kind)
    rules = prod.one("s3/bucketLifecycleConfiguration:BucketLifecycleConfiguration", "lake").inputs[
        "rules"
    ]
    kept = [rule for rule in rules if "noncurrentVersionExpiration" in rule]
    assert kept[0]["noncurrentVersionExpiration"] == {"noncurrentDays": 7}


def test_members_keep_name_address_zone_and_volume(prod: Graph) -> None:
    addresses = {"etcd": "10.42.{}.10", "storage": "10.42.{}.20"}
    for kind, pattern in addresses.items():
        for number in (1, 2, 3):
            name = f"{kind}-{number}"
            zone = f"eu-central-1{'abc'[number - 1]}"
            machine = prod.one("ec2/instance:Instance", name)
            volume = prod.one("ebs/volume:Volume", name)
            joined = prod.one("ec2/volumeAttachment:VolumeAttachment", name)
            known = prod.one("servicediscovery/instance:Instance", name)
            service = prod.one("servicediscovery/service:Service", name)
            subnet = prod.one("ec2/subnet:Subnet", f"data-{number}")
            address = pattern.format(48 + number - 1)
            assert volume.inputs["availabilityZone"] == subnet.inputs["availabilityZone"] == zone
            assert machine.inputs["subnetId"] == subnet.id
            assert machine.inputs["privateIp"] == address
            assert known.inputs["serviceId"] == service.id
            assert known.inputs["attributes"] == {"AWS_INSTANCE_IPV4": address}
            assert joined.inputs["volumeId"] == volume.id
            assert joined.inputs["instanceId"] == machine.id
            assert volume.id.replace("-", "") in machine.inputs["userData"]
            definition = prod.one("ecs/taskDefinition:TaskDefinition", name)
            expression = definition.inputs["placementConstraints"][0]["expression"]
            assert expression == f"attribute:sulina.member == {name}"
            assert f'"sulina.member": "{name}"' in machine.inputs["userData"]


def test_there_is_never_a_second_container_on_a_volume(prod: Graph) -> None:
    for service in prod.all("ecs/service:Service"):
        if service.name != "broker":
            assert service.inputs["desiredCount"] == 1
            assert service.inputs["deploymentMaximumPercent"] == 100
            assert service.inputs["deploymentMinimumHealthyPercent"] == 0


def test_containers_can_write_to_their_volume_and_nothing_else(prod: Graph) -> None:
    writable = {
        "broker": [],
        "etcd": ["/var/lib/sulina"],
        "storage": ["/var/lib/sulina"],
        "certificates": ["/run/sulina"],
        "watch": [],
    }
    for definition in prod.all("ecs/taskDefinition:TaskDefinition"):
        for container in prod.containers(definition.name):
            assert container["readonlyRootFilesystem"], definition.name
            assert container["user"] == "10001:10001"
            assert container["linuxParameters"]["capabilities"] == {"drop": ["ALL"]}
            assert container["linuxParameters"]["tmpfs"][0]["containerPath"] == "/tmp"
            assert "privileged" not in container
            mounted = container.get("mountPoints", ())
            written = [each["containerPath"] for each in mounted if not each["readOnly"]]
            assert written == writable[container["name"]]


def test_machines_ask_for_their_role_with_a_token(prod: Graph) -> None:
    for machine in prod.all("ec2/instance:Instance"):
        asked = machine.inputs["metadataOptions"]
        assert asked == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
        assert machine.inputs["associatePublicIpAddress"] is False


@pytest.mark.parametrize("stack", ["dev", "prod"])
def test_members_fit_on_their_machines(graph_of: Callable[[str], Graph], stack: str) -> None:
    graph = graph_of(stack)
    memory = {"t4g.micro": 1_024, "m7g.medium": 4_096, "m7g.large": 8_192}
    for machine in graph.all("ec2/instance:Instance"):
        if machine.name == "nat":
            continue
        reserved = sum(each["memoryReservation"] for each in graph.containers(machine.name))
        # The system, Docker and the ECS agent leave about this much of a small machine.
        assert reserved <= 0.8 * memory[machine.inputs["instanceType"]], machine.name


def test_one_broker_stays_when_spare_capacity_is_taken_back(dev: Graph, prod: Graph) -> None:
    spare, own = (each.one("ecs/service:Service", "broker").inputs for each in (dev, prod))
    assert spare["capacityProviderStrategies"] == [
        {"capacityProvider": "FARGATE", "base": 1, "weight": 0},
        {"capacityProvider": "FARGATE_SPOT", "weight": 1},
    ]
    assert own["capacityProviderStrategies"] == [{"capacityProvider": "FARGATE", "weight": 1}]
    # One can become the other: ECS changes a strategy in a new deployment, but no launch type.
    for broker in (spare, own):
        assert broker["forceNewDeployment"]
        assert "launchType" not in broker


def test_brokers_are_scaled_by_the_load_that_the_scaler_tells(prod: Graph) -> None:
    target = prod.one("appautoscaling/target:Target", "brokers").inputs
    assert (target["minCapacity"], target["maxCapacity"]) == (3, 12)
    assert target["resourceId"] == "service/sulina-prod-cluster/sulina-prod-broker"
    policy = prod.one("appautoscaling/policy:Policy", "load").inputs
    tracked = policy["targetTrackingScalingPolicyConfiguration"]
    metric = tracked["customizedMetricSpecification"]
    assert tracked["targetValue"] == 0.6
    assert (metric["namespace"], metric["metricName"]) == ("Sulina", "BrokerLoad")
    scaler = prod.one("lambda/function:Function", "scaler").inputs["environment"]["variables"]
    assert scaler["SULINA_METRICS"] == metric["namespace"]
    assert metric["dimensions"] == [{"name": "Cluster", "value": scaler["SULINA_CLUSTER"]}]


def test_a_new_object_calls_the_catalog_and_only_our_bucket_may(prod: Graph) -> None:
    lake = prod.one("s3/bucket:Bucket", "lake")
    told = prod.one("s3/bucketNotification:BucketNotification", "catalog").inputs
    called = told["lambdaFunctions"][0]
    assert told["bucket"] == lake.id
    assert called["lambdaFunctionArn"] == prod.one("lambda/function:Function", "catalog").arn
    assert (called["filterPrefix"], called["filterSuffix"]) == ("ledgers/", ".parquet")
    permission = prod.one("lambda/permission:Permission", "catalog").inputs
    assert permission["sourceArn"] == f"arn:aws:s3:::{lake.inputs['bucket']}"
    assert permission["sourceAccount"] == "123456789012"


def test_an_archive_that_is_too_large_for_a_request_goes_through_a_bucket(deployed: Graph) -> None:
    stored = deployed.one("s3/bucketObjectv2:BucketObjectv2", "catalog").inputs
    made = deployed.one("lambda/function:Function", "catalog").inputs
    assert "code" not in made
    assert (made["s3Bucket"], made["s3Key"]) == (stored["bucket"], stored["key"])
    assert stored["bucket"] == deployed.one("s3/bucket:Bucket", "work").id
    assert re.fullmatch(r"functions/catalog-[0-9a-f]{16}\.zip", stored["key"])
    assert "code" in deployed.one("lambda/function:Function", "scaler").inputs


def test_a_function_logs_to_a_group_that_it_can_not_make_itself(prod: Graph) -> None:
    groups = {made.inputs["name"] for made in prod.all("cloudwatch/logGroup:LogGroup")}
    for made in prod.all("lambda/function:Function"):
        assert made.inputs["loggingConfig"]["logGroup"] in groups
    parts = ("broker", "storage", "etcd", *FUNCTIONS)
    assert groups == {f"/sulina-prod/{part}" for part in parts}


def test_alarms_watch_every_member_and_function_and_say_what_to_do(prod: Graph) -> None:
    alarms = {made.name: made.inputs for made in prod.all("cloudwatch/metricAlarm:MetricAlarm")}
    for member in ("etcd-1", "etcd-2", "etcd-3", "storage-1", "storage-2", "storage-3"):
        assert f"{member}-machine" in alarms
        assert f"{member}-container" in alarms
        assert f"{member}-disk" in alarms
    for name in FUNCTIONS:
        assert f"{name}-errors" in alarms
    topic = prod.one("sns/topic:Topic", "alarms").arn
    for alarm in alarms.values():
        assert ":" in alarm["alarmDescription"]
        assert alarm["alarmActions"] == [topic]


def test_the_dashboard_is_a_document_of_widgets(prod: Graph) -> None:
    body = json.loads(prod.all("cloudwatch/dashboard:Dashboard")[0].inputs["dashboardBody"])
    titles = [widget["properties"]["title"] for widget in body["widgets"]]
    assert "Broker load" in titles
    assert "Member volumes, percent used" in titles
    for widget in body["widgets"]:
        assert widget["x"] + widget["width"] <= 24


def test_outputs_can_be_pasted(prod: Graph, dev: Graph) -> None:
    assert prod.outputs["url"] == "sulina+tls://sulina.example.com:6655"
    assert prod.outputs["danubeUrl"] == "https://sulina.example.com:6650"
    assert prod.outputs["adminUrl"] == "https://sulina.example.com:50051"
    assert prod.outputs["connect"].startswith("export SULINA_URL=sulina+tls://sulina.example.com")
    assert dev.outputs["url"] == "sulina://sulina.elb.example.com:6655"
    assert prod.outputs["discovery"] == "https://discovery.example.com"
    assert set(prod.outputs["repositories"]) == {"broker", "storage", "etcd"}
    assert prod.outputs["glueDatabase"] == "sulina_prod"


def test_what_was_not_built_is_told_with_the_command(graph_of: Callable[[str], Graph]) -> None:
    said = graph_of("unbuilt").error
    assert said == "nowhere/analytics.zip is missing: build the functions with `make functions`"


def test_a_public_endpoint_has_no_door_for_administration(
    graph_of: Callable[[str], Graph],
) -> None:
    public = graph_of("public")
    assert {made.name for made in public.all("lb/listener:Listener")} == {"binary", "grpc", "http"}
    assert "adminUrl" not in public.outputs
    balancer = public.one("lb/loadBalancer:LoadBalancer", "clients").inputs
    assert not balancer["internal"]
    edges = {made.id for made in public.all("ec2/subnet:Subnet") if "edge" in made.name}
    assert set(balancer["subnets"]) == edges


def test_prometheus_is_optional_and_has_our_rules_and_dashboards(dev: Graph, prod: Graph) -> None:
    assert not prod.all("amp/workspace:Workspace")
    rules = dev.one("amp/ruleGroupNamespace:RuleGroupNamespace", "rules")
    assert rules.inputs["data"] == (ROOT / "monitoring" / "alerts.yml").read_text()
    kept = {
        made.inputs["key"]
        for made in dev.all("s3/bucketObjectv2:BucketObjectv2")
        if made.inputs["key"].startswith("monitoring/")
    }
    files = (ROOT / "monitoring" / "dashboards").glob("*.json")
    assert kept == {f"monitoring/{path.name}" for path in files}
    topic, account = dev.one("sns/topic:Topic", "alarms"), {"aws:SourceAccount": "123456789012"}
    alerts = dev.one("amp/alertManagerDefinition:AlertManagerDefinition", "alerts")
    assert f"topic_arn: {topic.arn}" in alerts.inputs["definition"]
    service = ("Service", "aps.amazonaws.com")
    for graph, may in ((dev, True), (prod, False)):
        policy = IamPolicy.of(graph.one("sns/topicPolicy:TopicPolicy", "alarms").inputs["policy"])
        key = IamPolicy.of(graph.one("kms/key:Key", "operations").inputs["policy"])
        arn = graph.one("sns/topic:Topic", "alarms").arn
        assert policy.allows("sns:Publish", arn, account, service) == may
        assert key.allows("kms:GenerateDataKey", "*", account, service) == may
        assert not policy.allows("sns:Publish", arn, {}, service)
    workspace = dev.one("amp/workspace:Workspace", "prometheus").arn
    for name, action in (("writers", "aps:RemoteWrite"), ("readers", "aps:QueryMetrics")):
        made = dev.one("iam/policy:Policy", f"metrics-{name}")
        policy = IamPolicy.of(made.inputs["policy"])
        assert policy.allows(action, workspace)
        assert not policy.allows(action, f"{workspace}x")
        assert not policy.allows("aps:DeleteWorkspace", workspace)
