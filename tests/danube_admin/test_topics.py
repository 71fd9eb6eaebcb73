"""Namespaces and topics over Danube's admin services."""

from __future__ import annotations

import json

import grpc
import pytest

from broker_containers.doors.danube_schema import danube_schema_pb2 as schema_pb
from sulina import Client
from tests.danube_admin.client import AdminClient

ME = "broker-1"


async def test_a_topic_is_created_as_requested(admin: AdminClient, namespace: str) -> None:
    for name, strategy in (("sure", "Reliable"), ("fast", "NonReliable")):
        made = await admin(
            "TopicAdmin/CreateTopic", name=f"/{namespace}/{name}", dispatch_strategy=strategy
        )
        assert made.success
    found = await admin("TopicAdmin/ListNamespaceTopics", name=namespace)
    rows = {(row.name, row.broker_id, row.delivery) for row in found.topics}
    assert rows == {
        (f"/{namespace}/sure", ME, "Reliable"),
        (f"/{namespace}/fast", ME, "NonReliable"),
    }


async def test_the_topics_of_a_broker_are_listed(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic, dispatch_strategy="Reliable")
    found = await admin("TopicAdmin/ListBrokerTopics", broker_id=ME)
    [row] = [row for row in found.topics if row.name == topic]
    assert (row.broker_id, row.delivery) == (ME, "Reliable")


async def test_the_leading_slash_may_be_missing(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic.removeprefix("/"))
    assert (await admin("TopicAdmin/DescribeTopic", name=topic)).name == topic


async def test_a_topic_is_described(admin: AdminClient, client: Client, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic, dispatch_strategy="Reliable")
    for name in ("b", "a"):
        await client.admin("subscription.create", {"topic": topic, "subscription": name})
    found = await admin("TopicAdmin/DescribeTopic", name=topic)
    assert (found.name, found.broker_id, found.delivery) == (topic, ME, "Reliable")
    assert list(found.subscriptions) == ["a", "b"]
    assert not found.HasField("schema_subject") and not found.HasField("schema_id")


async def test_a_partitioned_topic_is_described_and_deleted_as_a_whole(
    admin: AdminClient, topic: str
) -> None:
    await admin(
        "TopicAdmin/CreatePartitionedTopic",
        base_name=topic,
        partitions=3,
        dispatch_strategy="Reliable",
    )
    assert (await admin("TopicAdmin/DescribeTopic", name=topic)).broker_id == ME
    part = f"{topic}-part-2"
    assert (await admin("TopicAdmin/DescribeTopic", name=part)).name == part
    assert (await admin("TopicAdmin/DeleteTopic", name=topic)).success
    await admin.refused(grpc.StatusCode.NOT_FOUND, "TopicAdmin/DescribeTopic", name=part)


async def test_a_topic_is_deleted_once(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic)
    assert (await admin("TopicAdmin/DeleteTopic", name=topic)).success
    await admin.refused(grpc.StatusCode.NOT_FOUND, "TopicAdmin/DeleteTopic", name=topic)


async def test_a_name_is_taken_once(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic)
    for method, fields in (
        ("CreateTopic", {"name": topic}),
        ("CreatePartitionedTopic", {"base_name": topic, "partitions": 2}),
    ):
        method = f"TopicAdmin/{method}"
        await admin.refused(grpc.StatusCode.ALREADY_EXISTS, method, **fields)


async def test_an_invalid_topic_is_refused_with_the_reason(admin: AdminClient, topic: str) -> None:
    invalid, absent = grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND
    make, spread = "TopicAdmin/CreateTopic", "TopicAdmin/CreatePartitionedTopic"
    assert "/namespace/topic" in await admin.refused(invalid, make, name="no slash at all")
    said = await admin.refused(invalid, make, name=topic, dispatch_strategy=9)
    assert "dispatch_strategy" in said
    assert "partition" in await admin.refused(invalid, spread, base_name=topic)
    said = await admin.refused(absent, make, name=topic, schema_subject="not-there")
    assert "no schema subject 'not-there'" in said
    await admin.refused(absent, "TopicAdmin/DescribeTopic", name=topic)  # nothing was made
    nowhere = "/nowhere-at-all/orders"
    await admin.refused(grpc.StatusCode.NOT_FOUND, make, name=nowhere)


@pytest.mark.parametrize(
    "method", ["DescribeTopic", "DeleteTopic", "UnloadTopic", "ListSubscriptions"]
)
async def test_a_topic_that_does_not_exist_is_not_found(
    admin: AdminClient, topic: str, method: str
) -> None:
    await admin.refused(grpc.StatusCode.NOT_FOUND, f"TopicAdmin/{method}", name=topic)


async def test_a_topic_can_not_leave_a_single_broker(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic)
    said = await admin.refused(
        grpc.StatusCode.FAILED_PRECONDITION, "TopicAdmin/UnloadTopic", name=topic
    )
    assert "single broker" in said


async def test_a_topic_is_bound_to_the_subject_it_is_created_with(
    admin: AdminClient, topic: str, unused: str
) -> None:
    subject = f"{unused}-subject"
    request = schema_pb.RegisterSchemaRequest(subject=subject, schema_type="string")
    path = "/danube_schema.SchemaRegistry/RegisterSchema"
    answer = await admin.raw(path, request.SerializeToString())
    made = schema_pb.RegisterSchemaResponse.FromString(answer)
    await admin(
        "TopicAdmin/CreatePartitionedTopic",
        base_name=topic,
        partitions=2,
        schema_subject=subject,
        dispatch_strategy=1,
    )
    found = await admin("TopicAdmin/DescribeTopic", name=f"{topic}-part-1")
    assert (found.schema_subject, found.schema_id) == (subject, made.schema_id)
    assert (found.schema_version, found.schema_type) == (1, "string")
    assert found.compatibility_mode == "backward"
    config = schema_pb.GetTopicSchemaConfigRequest(topic_name=topic)
    path = "/danube_schema.SchemaRegistry/GetTopicSchemaConfig"
    answer = await admin.raw(path, config.SerializeToString())
    assert schema_pb.GetTopicSchemaConfigResponse.FromString(answer).schema_subject == subject


METHODS = [
    f"NamespaceAdmin/{name}"
    for name in ("GetNamespaceTopics", "GetNamespacePolicies", "DeleteNamespace")
]


async def test_a_namespace_is_created_and_deleted(admin: AdminClient, unused: str) -> None:
    assert (await admin("NamespaceAdmin/CreateNamespace", name=unused)).success
    assert (await admin("NamespaceAdmin/DeleteNamespace", name=unused)).success
    assert unused not in (await admin("BrokerAdmin/ListNamespaces")).namespaces


async def test_a_namespace_is_created_once(admin: AdminClient, namespace: str) -> None:
    method = "NamespaceAdmin/CreateNamespace"
    await admin.refused(grpc.StatusCode.ALREADY_EXISTS, method, name=namespace)


@pytest.mark.parametrize("name", ["", "a/b", "x" * 300])
async def test_an_invalid_name_is_refused(admin: AdminClient, name: str) -> None:
    for method in ("NamespaceAdmin/CreateNamespace", *METHODS):
        await admin.refused(grpc.StatusCode.INVALID_ARGUMENT, method, name=name)


async def test_a_namespace_that_does_not_exist_is_not_found(
    admin: AdminClient, unused: str
) -> None:
    for method in (*METHODS, "TopicAdmin/ListNamespaceTopics"):
        said = await admin.refused(grpc.StatusCode.NOT_FOUND, method, name=unused)
        assert unused in said


async def test_a_namespace_with_topics_is_not_deleted(admin: AdminClient, topic: str) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic)
    namespace = topic.split("/")[1]
    method = "NamespaceAdmin/DeleteNamespace"
    said = await admin.refused(grpc.StatusCode.FAILED_PRECONDITION, method, name=namespace)
    assert "delete them first" in said


async def test_its_topics_are_listed_partitions_one_by_one(
    admin: AdminClient, namespace: str
) -> None:
    await admin("TopicAdmin/CreateTopic", name=f"/{namespace}/one")
    await admin("TopicAdmin/CreatePartitionedTopic", base_name=f"/{namespace}/two", partitions=2)
    found = await admin("NamespaceAdmin/GetNamespaceTopics", name=namespace)
    parts = [f"/{namespace}/two-part-{number}" for number in (0, 1)]
    assert sorted(found.topics) == [f"/{namespace}/one", *parts]


async def test_its_policies_are_json_with_the_fields_that_danube_reads(
    admin: AdminClient, namespace: str
) -> None:
    found = await admin("NamespaceAdmin/GetNamespacePolicies", name=namespace)
    policies = json.loads(found.policies)
    assert policies["max_message_size"] == 10 << 20
    read = {f"max_{what}_per_topic" for what in ("producers", "subscriptions", "consumers")}
    rates = {"max_publish_rate", "max_subscription_dispatch_rate"}
    for name in (*read, *rates, "max_consumers_per_subscription"):
        assert policies[name] == 0
