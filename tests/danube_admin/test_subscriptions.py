"""Subscriptions over Danube's admin services."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from broker_containers.doors.danube_admin.brokers import STRATEGIES
from broker_containers.doors.danube_admin.subscriptions import TYPES
from broker_containers.load.settings import RankingName
from sulina import Client, SubscriptionType
from tests.danube.calls import Calls
from tests.danube_admin.client import AdminClient
from tests.support.server import SulinaProcess

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
