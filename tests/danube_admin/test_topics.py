"""Namespaces, topics and subscriptions over Danube's admin services."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from broker_containers.doors.danube_admin.brokers import STRATEGIES
from broker_containers.doors.danube_admin.subscriptions import TYPES
from broker_containers.doors.danube_schema import danube_schema_pb2 as schema_pb
from broker_containers.load.settings import RankingName
from sulina import Client, SubscriptionType
from tests.danube.calls import Calls
from tests.danube_admin.client import AdminClient
from tests.support.server import SulinaProcess

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
    assert found.compatibility_mode == "BACKWARD"
    config = schema_pb.GetTopicSchemaConfigRequest(topic_name=topic)
    path = "/danube_schema.SchemaRegistry/GetTopicSchemaConfig"
    answer = await admin.raw(path, config.SerializeToString())
    assert schema_pb.GetTopicSchemaConfigResponse.FromString(answer).schema_subject == subject


@pytest.mark.parametrize(("subject", "kind"), [("String", "string"), ("Json", "json_schema")])
async def test_the_names_of_types_are_subjects_for_the_console(
    admin: AdminClient, topic: str, subject: str, kind: str
) -> None:
    for name in (topic, f"{topic}-2"):
        await admin("TopicAdmin/CreateTopic", name=name, schema_subject=subject)
        found = await admin("TopicAdmin/DescribeTopic", name=name)
        assert (found.schema_subject, found.schema_type) == (subject, kind)


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


POLICY: dict[str, Any] = {
    "max_redelivery_count": 3,
    "ack_timeout_ms": 7_000,
    "base_redelivery_delay_ms": 50,
    "max_redelivery_delay_ms": 900,
    "backoff_strategy": "Fixed",
    "poison_policy": "Drop",
}


@pytest.fixture
async def subscribed(admin: AdminClient, client: Client, topic: str) -> str:
    """A topic with three partitions, two of which have a subscription named work."""
    await admin(
        "TopicAdmin/CreatePartitionedTopic",
        base_name=topic,
        partitions=3,
        dispatch_strategy="Reliable",
    )
    for number in (0, 2):
        await client.admin(
            "subscription.create",
            {"topic": f"{topic}-part-{number}", "subscription": "work", "type": "key_shared"},
        )
    return topic


async def test_they_are_listed_over_all_partitions(admin: AdminClient, subscribed: str) -> None:
    found = await admin("TopicAdmin/ListSubscriptions", name=subscribed)
    assert list(found.subscriptions) == ["work"]
    other = await admin("TopicAdmin/ListSubscriptions", name=f"{subscribed}-part-1")
    assert not other.subscriptions


async def test_one_is_deleted_on_all_partitions(admin: AdminClient, subscribed: str) -> None:
    fields = {"topic": subscribed, "subscription": "work"}
    assert (await admin("TopicAdmin/Unsubscribe", **fields)).success
    assert not (await admin("TopicAdmin/ListSubscriptions", name=subscribed)).subscriptions
    await admin.refused(grpc.StatusCode.NOT_FOUND, "TopicAdmin/Unsubscribe", **fields)


async def test_the_failure_policy_is_danubes_until_it_is_set(
    admin: AdminClient, subscribed: str
) -> None:
    method = "TopicAdmin/GetSubscriptionFailurePolicy"
    found = await admin(method, topic=subscribed, subscription="work")
    policy = found.failure_policy
    assert found.subscription_type == 3
    assert (policy.max_redelivery_count, policy.ack_timeout_ms) == (5, 30_000)
    assert (policy.base_redelivery_delay_ms, policy.max_redelivery_delay_ms) == (1_000, 60_000)
    assert (policy.backoff_strategy, policy.poison_policy) == (1, 1)
    assert not policy.HasField("dead_letter_topic")


async def test_a_failure_policy_is_set_on_all_partitions(
    admin: AdminClient, subscribed: str
) -> None:
    fields = {"topic": subscribed, "subscription": "work"}
    set_, get = (f"TopicAdmin/{what}SubscriptionFailurePolicy" for what in ("Set", "Get"))
    assert (await admin(set_, **fields, failure_policy=POLICY)).success
    for number in (0, 2):
        part = f"{subscribed}-part-{number}"
        policy = (await admin(get, topic=part, subscription="work")).failure_policy
        assert (policy.max_redelivery_count, policy.ack_timeout_ms) == (3, 7_000)
        assert (policy.base_redelivery_delay_ms, policy.max_redelivery_delay_ms) == (50, 900)
        assert (policy.backoff_strategy, policy.poison_policy) == (0, 2)
    dead = {**POLICY, "poison_policy": "DeadLetter", "dead_letter_topic": "/default/dead"}
    assert (await admin(set_, **fields, failure_policy=dead)).success
    policy = (await admin(get, **fields)).failure_policy
    assert (policy.poison_policy, policy.dead_letter_topic) == (0, "/default/dead")


async def test_settings_may_come_before_the_subscription(
    shared_sulina_process: SulinaProcess, admin: AdminClient, client: Client, topic: str
) -> None:
    await admin(
        "TopicAdmin/CreatePartitionedTopic",
        base_name=topic,
        partitions=2,
        dispatch_strategy="Reliable",
    )
    fields = {"topic": topic, "subscription": "s"}
    policy = {**POLICY, "poison_policy": "Block"}
    config = {"max_unacked_messages": 9}
    await admin("TopicAdmin/SetSubscriptionFailurePolicy", **fields, failure_policy=policy)
    await admin("TopicAdmin/SetSubscriptionDispatchConfig", **fields, dispatch_config=config)
    found = await admin("TopicAdmin/GetSubscriptionFailurePolicy", **fields)
    assert (found.failure_policy.ack_timeout_ms, found.failure_policy.poison_policy) == (7_000, 1)
    found = await admin("TopicAdmin/GetSubscriptionDispatchConfig", **fields)
    assert found.dispatch_config.max_unacked_messages == 9
    assert not (await admin("TopicAdmin/ListSubscriptions", name=topic)).subscriptions
    url = f"http://127.0.0.1:{shared_sulina_process.grpc_port}"
    async with Calls(url) as calls:
        await calls.subscribe(f"{topic}-part-1")
    made = await client.admin(
        "subscription.describe", {"topic": f"{topic}-part-1", "subscription": "s"}
    )
    assert (made["failure_policy"]["ack_timeout_ms"], made["max_unacked"]) == (7_000, 9)


async def test_settings_for_a_subscription_that_never_came_can_be_deleted(
    admin: AdminClient, topic: str
) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic, dispatch_strategy="Reliable")
    fields = {"topic": topic, "subscription": "never"}
    await admin("TopicAdmin/SetSubscriptionFailurePolicy", **fields, failure_policy=POLICY)
    assert (await admin("TopicAdmin/Unsubscribe", **fields)).success
    for method in ("Unsubscribe", "GetSubscriptionFailurePolicy"):
        await admin.refused(grpc.StatusCode.NOT_FOUND, f"TopicAdmin/{method}", **fields)


async def test_block_stops_a_message_that_failed_too_often_and_what_follows(
    shared_sulina_process: SulinaProcess, admin: AdminClient, client: Client, topic: str
) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic, dispatch_strategy="Reliable")
    fields = {"topic": topic, "subscription": "s"}
    set_, url = (
        "TopicAdmin/SetSubscriptionFailurePolicy",
        f"http://127.0.0.1:{shared_sulina_process.grpc_port}",
    )
    policy = {**POLICY, "max_redelivery_count": 0, "max_redelivery_delay_ms": 50}
    await admin(set_, **fields, failure_policy={**policy, "poison_policy": "Block"})
    async with Calls(url) as calls:
        await calls.producer(topic)
        stream = calls.stream(await calls.subscribe(topic))
        await calls.send(topic, b"blocked")
        message = await stream.read()
        await calls("Nack", msg_id=message.msg_id, subscription_name="s", delay_ms=0)
        await calls.send(topic, b"after")
        described = await client.admin("subscription.describe", fields)
        assert described["counters"]["delivered"] == 1
        assert "offset 0 failed too often" in described["stalled"]
        await admin(set_, **fields, failure_policy={**policy, "poison_policy": "Drop"})
        assert (await stream.read()).payload == b"blocked", "another policy, another try"
        await calls("Nack", msg_id=message.msg_id, subscription_name="s", delay_ms=0)
        assert (await stream.read()).payload == b"after"
        stream.cancel()


@pytest.mark.parametrize(
    "change",
    [
        {"poison_policy": "DeadLetter"},
        {"base_redelivery_delay_ms": 1000},
        {"backoff_strategy": 9},
        {"poison_policy": 9},
    ],
)
async def test_an_invalid_failure_policy_is_refused(
    admin: AdminClient, subscribed: str, change: dict[str, Any]
) -> None:
    await admin.refused(
        grpc.StatusCode.INVALID_ARGUMENT,
        "TopicAdmin/SetSubscriptionFailurePolicy",
        topic=subscribed,
        subscription="work",
        failure_policy={**POLICY, **change},
    )


async def test_a_failure_policy_is_required_and_its_topic_must_be_reliable(
    admin: AdminClient, client: Client, topic: str
) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic)
    await client.admin("subscription.create", {"topic": topic, "subscription": "work"})
    method, fields = (
        "TopicAdmin/SetSubscriptionFailurePolicy",
        {"topic": topic, "subscription": "work"},
    )
    await admin.refused(grpc.StatusCode.INVALID_ARGUMENT, method, **fields)
    said = await admin.refused(
        grpc.StatusCode.FAILED_PRECONDITION, method, **fields, failure_policy=POLICY
    )
    assert "not reliable" in said


@pytest.mark.parametrize(
    "method",
    ["Unsubscribe", "GetSubscriptionFailurePolicy", "GetSubscriptionDispatchConfig"],
)
async def test_an_unknown_subscription_is_not_found_and_an_empty_name_refused(
    admin: AdminClient, subscribed: str, method: str
) -> None:
    method = f"TopicAdmin/{method}"
    said = await admin.refused(
        grpc.StatusCode.NOT_FOUND, method, topic=subscribed, subscription="play"
    )
    assert "play" in said
    await admin.refused(grpc.StatusCode.INVALID_ARGUMENT, method, topic=subscribed)


async def test_a_dispatch_config_is_set_on_all_partitions_and_removed(
    admin: AdminClient, client: Client, subscribed: str
) -> None:
    fields = {"topic": subscribed, "subscription": "work"}
    set_, get = (f"TopicAdmin/{what}SubscriptionDispatchConfig" for what in ("Set", "Get"))
    assert not (await admin(get, **fields)).HasField("dispatch_config")
    config = {"max_unacked_messages": 7}
    assert (await admin(set_, **fields, dispatch_config=config)).success
    for number in (0, 2):
        part = {"topic": f"{subscribed}-part-{number}", "subscription": "work"}
        assert (await admin(get, **part)).dispatch_config.max_unacked_messages == 7
        assert (await client.admin("subscription.describe", part))["max_unacked"] == 7
    assert (await admin(set_, **fields, dispatch_config={})).success
    assert not (await admin(get, **fields)).HasField("dispatch_config")


async def test_a_stock_client_gets_no_more_than_its_subscription_allows(
    shared_sulina_process: SulinaProcess, admin: AdminClient, client: Client, topic: str
) -> None:
    await admin("TopicAdmin/CreateTopic", name=topic, dispatch_strategy="Reliable")
    fields = {"topic": topic, "subscription": "s"}
    await client.admin("subscription.create", {**fields, "type": "exclusive"})
    config = {"max_unacked_messages": 1}
    await admin("TopicAdmin/SetSubscriptionDispatchConfig", **fields, dispatch_config=config)
    url = f"http://127.0.0.1:{shared_sulina_process.grpc_port}"
    async with Calls(url) as calls, client.producer(topic) as producer:
        await (await producer.send_many([b"0", b"1", b"2"]))
        stream = calls.stream(await calls.subscribe(topic))
        for number in range(3):
            message = await stream.read()
            assert message.payload == b"%d" % number
            described = await client.admin("subscription.describe", fields)
            assert described["counters"]["delivered"] == number + 1
            await calls("Ack", msg_id=message.msg_id, subscription_name="s")
        stream.cancel()


async def test_an_invalid_dispatch_config_is_refused(
    admin: AdminClient, client: Client, topic: str, subscribed: str
) -> None:
    method = "TopicAdmin/SetSubscriptionDispatchConfig"
    fields = {"topic": subscribed, "subscription": "work"}
    await admin.refused(grpc.StatusCode.INVALID_ARGUMENT, method, **fields)
    large = {"max_unacked_messages": 1 << 31}
    await admin.refused(grpc.StatusCode.INVALID_ARGUMENT, method, **fields, dispatch_config=large)
    fast = f"{topic}-fast"
    await admin("TopicAdmin/CreateTopic", name=fast)
    await client.admin("subscription.create", {"topic": fast, "subscription": "work"})
    fields["topic"] = fast
    said = await admin.refused(
        grpc.StatusCode.FAILED_PRECONDITION,
        method,
        **fields,
        dispatch_config={"max_unacked_messages": 1},
    )
    assert "not reliable" in said


def test_every_subscription_type_and_ranking_has_a_name_in_danube() -> None:
    assert set(TYPES) == set(SubscriptionType)
    assert set(STRATEGIES) == set(RankingName)
