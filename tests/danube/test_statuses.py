"""Where statuses differ from Danube's: each row of the table in docs/danube.md, as it is here."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.danube_admin.settings import AdminListen
from broker_containers.doors.danube_schema import danube_schema_pb2 as schema_pb
from broker_containers.doors.listen import Listen
from sulina import Client
from tests.danube.calls import Calls
from tests.danube_admin.client import AdminClient, admin_client

PAGE = Path(__file__).parents[2] / "docs" / "danube.md"
TOPIC = "/default/statuses"


@dataclass(frozen=True)
class Doors:
    """The doors of one broker."""

    calls: Calls
    admin: AdminClient
    native: Client

    async def registry(self, method: str, request: Any) -> bytes:
        path = f"/danube_schema.SchemaRegistry/{method}"
        return await self.admin.raw(path, request.SerializeToString())


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def doors(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Doors]:
    places = DoorSettings(
        Listen(port=0), danube=DanubeListen(port=0), danube_admin=AdminListen(port=0)
    )
    async with run_embedded(tmp_path_factory.mktemp("statuses"), places) as server:
        at = server.addresses
        assert at.danube_admin_port is not None
        async with (
            Calls(at.grpc_url) as calls,
            admin_client(at.danube_admin_port) as admin,
            sulina.connect(at.url) as native,
        ):
            await calls.producer(TOPIC)
            yield Doors(calls, admin, native)


Call = Callable[[Doors], Awaitable[Any]]


async def second_exclusive(doors: Doors) -> None:
    async with AsyncExitStack() as stack:
        stream = doors.calls.stream(await doors.calls.subscribe(TOPIC, "one", subscription="only"))
        stack.callback(stream.cancel)
        await doors.calls.send(TOPIC, b"x")
        await stream.read()
        await doors.calls.subscribe(TOPIC, "two", subscription="only")


async def too_many(doors: Doors, limit: str, call: Call) -> None:
    topic = f"/default/{limit.replace('_', '-')}"
    await doors.native.admin("topic.create", {"topic": topic})
    await doors.native.admin("topic.policy", {"topic": topic, limit: 1})
    await call(doors)


async def producers(doors: Doors) -> None:
    topic = "/default/max-producers-per-topic"
    await doors.calls.producer(topic, "one")
    await doors.calls.producer(topic, "two")


async def subscriptions(doors: Doors) -> None:
    topic = "/default/max-subscriptions-per-topic"
    await doors.calls.subscribe(topic, subscription="one")
    await doors.calls.subscribe(topic, subscription="two")


async def not_compatible(doors: Doors) -> None:
    for text in (b'{"type": "string"}', b'{"type": "integer"}'):
        request = schema_pb.RegisterSchemaRequest(
            subject="statuses", schema_type="json", schema_definition=text
        )
        await doors.registry("RegisterSchema", request)


async def invalid_message(doors: Doors) -> None:
    topic = "/default/strict"
    await doors.calls.producer(topic)
    await doors.native.admin("schema.register", {"subject": "strict", "type": "string"})
    binding = {"topic": topic, "subject": "strict", "validation": "enforce"}
    await doors.native.admin("schema.bind", binding)
    await doors.calls.send(topic, b"names no schema")


async def taken_namespace(doors: Doors) -> None:
    await doors.admin("NamespaceAdmin/CreateNamespace", name="default")


async def used_namespace(doors: Doors) -> None:
    await doors.admin("NamespaceAdmin/DeleteNamespace", name="default")


ROWS: dict[str, Call] = {
    "a producer in a namespace that does not exist": lambda d: d.calls.producer("/nowhere/t"),
    "a second consumer of an Exclusive subscription": second_exclusive,
    "too many producers of a topic": lambda d: too_many(d, "max_producers_per_topic", producers),
    "too many subscriptions of a topic": lambda d: too_many(
        d, "max_subscriptions_per_topic", subscriptions
    ),
    "a message of a producer that is not known": lambda d: d.calls.send(TOPIC, b"x", "unknown"),
    "a message that the topic's schema refuses": invalid_message,
    "an acknowledgement for a topic that does not exist": lambda d: d.calls(
        "Ack", msg_id={"topic_name": "/default/none"}, subscription_name="s"
    ),
    "a topic that exists is created": lambda d: d.admin("TopicAdmin/CreateTopic", name=TOPIC),
    "a topic with an invalid name is created": lambda d: d.admin(
        "TopicAdmin/CreateTopic", name="no name"
    ),
    "a topic that does not exist is described": lambda d: d.admin(
        "TopicAdmin/DescribeTopic", name="/default/none"
    ),
    "the topics of a namespace that does not exist are listed": lambda d: d.admin(
        "TopicAdmin/ListNamespaceTopics", name="nowhere"
    ),
    "the policy of a subscription that nothing is set for": lambda d: d.admin(
        "TopicAdmin/GetSubscriptionFailurePolicy", topic=TOPIC, subscription="none"
    ),
    "a dispatch limit of 0": lambda d: d.admin(
        "TopicAdmin/SetSubscriptionDispatchConfig",
        topic=TOPIC,
        subscription="later",
        dispatch_config={"max_unacked_messages": 0},
    ),
    "a namespace that exists is created": taken_namespace,
    "a namespace with topics is deleted": used_namespace,
    "a topic is unloaded from a single broker": lambda d: d.admin(
        "TopicAdmin/UnloadTopic", name=TOPIC
    ),
    "a schema that is not compatible is registered": not_compatible,
}


def table() -> dict[str, str]:
    """What the page says of each case: the status here."""
    text = PAGE.read_text().partition("## Statuses that differ\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([A-Z_]+)[^|]*\| ([^|]+) \|$", text, re.M)
    return {case: ours for case, _, ours, _ in rows}


def test_the_page_has_every_case_and_no_other() -> None:
    assert table().keys() == ROWS.keys()


@pytest.mark.parametrize("case", ROWS)
async def test_a_case_has_the_status_that_the_page_says(doors: Doors, case: str) -> None:
    status = grpc.StatusCode.OK
    try:
        await ROWS[case](doors)
    except grpc.aio.AioRpcError as error:
        status = error.code()
    assert status.name == table()[case]
