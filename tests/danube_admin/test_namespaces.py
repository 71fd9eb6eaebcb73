"""Namespaces over Danube's admin services."""

from __future__ import annotations

import json

import grpc
import pytest

from tests.danube_admin.client import AdminClient

METHODS = [
    f"NamespaceAdmin/{name}"
    for name in ("GetNamespaceTopics", "GetNamespacePolicies", "DeleteNamespace")
]


async def test_a_namespace_is_created_and_deleted(admin: AdminClient, unused: str) -> None:
    assert (await admin("NamespaceAdmin/CreateNamespace", name=unused)).success
    assert (await admin("NamespaceAdmin/DeleteNamespace", name=unused)).success
    assert unused not in (await admin("BrokerAdmin/ListNamespaces")).namespaces


async def test_a_name_is_taken_once(admin: AdminClient, namespace: str) -> None:
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
