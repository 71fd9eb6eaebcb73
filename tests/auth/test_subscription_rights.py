"""A principal that may use one subscription of a topic, at every door."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from broker_containers.security.access import Access, Need, of_topic
from broker_containers.security.permissions import grants_of
from sulina import Start
from sulina.errors import NotFound, Refused
from sulina.metadata.keys.auth import Grant
from sulina.metadata.keys.bindings import Reach
from sulina.metadata.keys.roles import Permission
from sulina.model import Action
from tests.auth.broker import ROOT, Guarded, bearer
from tests.auth.test_bindings import bind
from tests.auth.test_doors import PATIENCE, admin_calls
from tests.danube.calls import Calls, status_of

Code = grpc.StatusCode
ORDERS = "/shop/orders"


def somebody(*grants: str) -> Access:
    return Access("somebody", tuple(map(Grant.parse, grants)))


@pytest.mark.parametrize(
    ("grant", "need", "covered"),
    [
        (f"consume:{ORDERS}#mine", of_topic(Action.CONSUME, ORDERS, "mine"), True),
        (f"consume:{ORDERS}#mine", of_topic(Action.CONSUME, ORDERS, "mine-too"), False),
        (f"consume:{ORDERS}#mine", of_topic(Action.CONSUME, ORDERS), False),
        (f"consume:{ORDERS}#mine", of_topic(Action.CONSUME, "/shop/others", "mine"), False),
        (f"consume:{ORDERS}#mine", of_topic(Action.CONSUME, f"{ORDERS}-part-3", "mine"), True),
        (f"consume:{ORDERS}#mine", of_topic(Action.PRODUCE, ORDERS), False),
        (f"consume:{ORDERS}#mine", of_topic(None, ORDERS), True),
        (f"consume:{ORDERS}#mine", of_topic(None, ORDERS, "mine"), True),
        (f"consume:{ORDERS}#mine", of_topic(None, ORDERS, "other"), False),
        (f"consume:{ORDERS}#mine", of_topic(None, "*"), False),
        (f"consume:{ORDERS}#mine-*", of_topic(Action.CONSUME, ORDERS, "mine-1"), True),
        (f"consume:{ORDERS}#mine-*", of_topic(Action.CONSUME, ORDERS, "other"), False),
        (f"consume:{ORDERS}#*", of_topic(Action.CONSUME, ORDERS, "any"), True),
        (f"consume:{ORDERS}#*", of_topic(Action.CONSUME, ORDERS), False),
        ("consume:/shop/*#mine", of_topic(Action.CONSUME, ORDERS, "mine"), True),
        ("consume:/shop/*#mine", of_topic(Action.CONSUME, ORDERS, "other"), False),
        ("consume:*#mine", of_topic(Action.CONSUME, ORDERS, "mine"), True),
        ("consume:*#mine", of_topic(None, "*"), False),
        (f"topics:{ORDERS}#mine", of_topic(Action.TOPICS, ORDERS), False),
        (f"consume:{ORDERS}", of_topic(Action.CONSUME, ORDERS, "any"), True),
        (f"consume:{ORDERS}#a/*", of_topic(Action.CONSUME, ORDERS, "a/b"), True),
        ("schemas:a#b", Need(Action.SCHEMAS, "a#b"), True),
        ("schemas:a#b", Need(Action.SCHEMAS, "a"), False),
    ],
)
def test_a_grant_covers_its_subscription_alone(grant: str, need: Need, covered: bool) -> None:
    assert somebody(grant).allows(need) is covered
    assert str(Grant.parse(grant)) == grant


@pytest.mark.parametrize(
    "text", [f"produce:{ORDERS}#s", "namespaces:/shop/*#s", f"consume:{ORDERS}#", "brokers:*#s"]
)
def test_grants_without_a_meaning_for_subscriptions_are_refused(text: str) -> None:
    with pytest.raises(Refused):
        Grant.parse(text)


def test_a_binding_may_be_limited_to_a_subscription() -> None:
    reach = Reach.parse("topic", "shop/orders#mine-*")
    assert str(reach) == f"topic {ORDERS}#mine-*"
    found = grants_of(Permission, reach)
    assert {str(each) for each in found} == {
        f"{action}:{ORDERS}#mine-*" for action in ("lookup", "consume", "topics")
    }
    with pytest.raises(Refused):
        Reach.parse("topic", f"{ORDERS}#")


async def test_a_client_consumes_through_its_own_subscription_alone(
    guarded: Guarded, topic: str, name: str
) -> None:
    token = await guarded.token(name, f"consume:{topic}#mine")
    async with guarded.connect(token) as client:
        with pytest.raises(NotFound):  # it does not create topics
            await client.consumer(topic, "mine").open()
        async with guarded.root.producer(topic) as producer:
            await (await producer.send(b"hello"))
        async with client.consumer(topic, "mine", start=Start.earliest()) as consumer:
            assert (await consumer.receive(PATIENCE)).payload == b"hello"
            await consumer.seek(Start.earliest())
            assert (await consumer.receive(PATIENCE)).payload == b"hello"
        with pytest.raises(Refused, match=f"consume on {topic}#other"):
            await client.consumer(topic, "other").open()
        with pytest.raises(Refused, match="may not do this"):
            await client.read(topic, Start.earliest())
        with pytest.raises(Refused, match="may not do this"):
            await client.producer(topic).open()


async def test_operations_are_limited_to_the_own_subscription(
    guarded: Guarded, topic: str, name: str
) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    for each in ("mine", "other"):
        await guarded.root.admin("subscription.create", {"topic": topic, "subscription": each})
    token = await guarded.token(name, f"consume:{topic}#mine", f"topics:{topic}#mine")
    about: list[tuple[str, dict[str, Any]]] = [
        ("subscription.describe", {}),
        ("subscription.dispatch", {}),
        ("subscription.dispatch", {"max_unacked": 10}),
        ("subscription.policy", {}),
        ("subscription.seek", {"start": "earliest"}),
        ("subscription.delete", {}),
        ("subscription.create", {}),
    ]
    async with guarded.connect(token) as client:
        for operation, more in about:
            await client.admin(operation, {"topic": topic, "subscription": "mine", **more})
            with pytest.raises(Refused, match=f"on {topic}#other"):
                await client.admin(operation, {"topic": topic, "subscription": "other", **more})
        with pytest.raises(Refused, match="consume on"):
            await client.admin("messages.peek", {"topic": topic})
        rows = await client.admin("subscription.list", {"topic": topic})
        assert [row["subscription"] for row in rows] == ["mine"]
    headers = bearer(token)
    path = f"/api/v1/topics{topic}"
    described = await guarded.http.ok("GET", path, headers=headers)
    assert [row["subscription"] for log in described["logs"] for row in log["subscriptions"]] == [
        "mine"
    ]
    await guarded.http.ok("GET", f"{path}/subscriptions/mine", headers=headers)
    for verb in ("GET", "DELETE"):
        answer = await guarded.http(verb, f"{path}/subscriptions/other", headers=headers)
        answer.problem(403, "denied")
    async with admin_calls(guarded, token) as admin:
        listed = await admin("TopicAdmin/ListSubscriptions", name=topic)
        assert list(listed.subscriptions) == ["mine"]
        fields = {"topic": topic, "subscription": "other"}
        denied = await status_of(admin("TopicAdmin/Unsubscribe", **fields))
        assert denied is Code.PERMISSION_DENIED
        await admin("TopicAdmin/Unsubscribe", topic=topic, subscription="mine")


async def test_danubes_clients_are_limited_to_the_own_subscription(
    guarded: Guarded, topic: str, name: str
) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    token = await guarded.token(name)
    await bind(guarded, name, "topic", f"{topic}#mine-*", "Consume")
    async with Calls(guarded.grpc_url, ROOT) as root, Calls(guarded.grpc_url, token) as calls:
        number = await calls.subscribe(topic, subscription="mine-1")
        others = await root.subscribe(topic, subscription="other")
        async with guarded.root.producer(topic) as producer:
            await (await producer.send(b"hello"))
        message = await calls.stream(number).read()
        assert message.payload == b"hello"
        await calls("Ack", msg_id=message.msg_id, subscription_name="mine-1")
        for call in (
            calls.subscribe(topic, subscription="other"),
            calls.stream(others).read(),
            calls("Ack", msg_id=message.msg_id, subscription_name="other"),
            calls("Nack", msg_id=message.msg_id, subscription_name="other"),
            calls("ListSegmentDescriptors", topic=topic),
        ):
            assert await status_of(call) is Code.PERMISSION_DENIED


async def test_a_connected_consumer_ends_when_only_another_subscription_is_left(
    guarded: Guarded, topic: str, name: str
) -> None:
    await guarded.root.admin("topic.create", {"topic": topic})
    token = await guarded.token(name, f"consume:{topic}#mine", f"consume:{topic}#other")
    async with guarded.connect(token) as client:
        mine, other = client.consumer(topic, "mine"), client.consumer(topic, "other")
        await mine.open()
        await other.open()
        grants = {"principal": name, "grants": [f"consume:{topic}#mine"]}
        await guarded.root.admin("principal.withdraw", grants)
        with pytest.raises(Refused, match=f"consume on {topic}#mine"):
            await mine.receive(PATIENCE)
        async with guarded.root.producer(topic) as producer:
            await (await producer.send(b"still allowed"))
        assert (await other.receive(PATIENCE)).payload == b"still allowed"
