"""Which messages a topic takes, by the schema they name and by their payload, at every door."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

import sulina
from broker_containers.assembly.running import DoorSettings, RunningBroker
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.danube.settings import DanubeListen
from broker_containers.doors.listen import Listen
from broker_containers.schemas.checks import SchemaChecks, TopicSchemaCheck
from broker_containers.schemas.errors import InvalidPayload
from broker_containers.schemas.registry import SchemaRegistry, open_registry
from sulina import Client, Refused
from sulina.errors import NotFound
from sulina.metadata.keys import topic_lifecycle
from sulina.metadata.keys.schemas import TopicSchemaRecord, Validation
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from tests.danube.calls import Calls
from tests.http.client import Http, http_client
from tests.schemas.json_shapes import NAME, NAME_AND_AGE, text

TOPIC = "/default/people"
GOOD, BAD = b'{"name": "Ada", "age": 36}', b'{"age": "many"}'


@dataclass(frozen=True, slots=True)
class Doors:
    """A broker, and a client of each door."""

    server: RunningBroker
    native: Client
    http: Http
    grpc: Calls
    schema_id: int

    async def bind(self, validation: str, *, payload: bool, topic: str = TOPIC) -> None:
        arguments = {"subject": "people", "validation": validation, "payload": payload}
        await self.native.admin("schema.bind", {"topic": topic, **arguments})

    async def taken(self, payload: bytes, version: int, topic: str = TOPIC) -> list[bool]:
        """Whether each door takes a message; the reason must be told if it does not."""
        schema_id = self.schema_id if version else 0
        done = []
        producer = self.native.producer(topic, schema_id=schema_id, schema_version=version)
        async with producer:
            ticket = await producer.send(payload)
            try:
                await ticket
                done.append(True)
            except Refused:
                done.append(False)
        headers = {"Sulina-Schema-Id": str(schema_id), "Sulina-Schema-Version": str(version)}
        path = f"/api/v1/topics{topic}/messages"
        answer = await self.http("POST", path, data=payload, headers=headers)
        done.append(answer.status == 200)
        if answer.status != 200:
            assert "accepts only 'people' messages" in answer.problem(422, "invalid-payload")
        await self.grpc.producer(topic, "grpc")
        try:
            names = {"schema_id": schema_id, "schema_version": version}
            await self.grpc.send(topic, payload, "grpc", **names)
            done.append(True)
        except grpc.aio.AioRpcError as error:
            assert error.code() is grpc.StatusCode.INVALID_ARGUMENT  # noqa: PT017
            done.append(False)
        return done

    async def counted(self) -> dict[str, float]:
        """The metrics of the gates."""
        text = (await self.http("GET", "/metrics")).text
        rows = (line.rpartition(" ") for line in text.splitlines() if line.startswith("sulina_sch"))
        return {name.partition("sulina_schema_")[2]: float(value) for name, _, value in rows}


ALL, NONE = [True] * 3, [False] * 3


@pytest.fixture
async def doors(tmp_path: Path) -> AsyncIterator[Doors]:
    door = DanubeListen(port=0)
    async with (
        run_embedded(
            tmp_path, DoorSettings(Listen(port=0), http=Listen(port=0), danube=door)
        ) as server,
        sulina.connect(server.addresses.url) as native,
        http_client(f"http://127.0.0.1:{server.addresses.http_port}") as http,
        Calls(f"http://127.0.0.1:{server.addresses.grpc_port}") as calls,
    ):
        definition = json.dumps(NAME_AND_AGE)
        made = await native.admin(
            "schema.register", {"subject": "people", "type": "json", "definition": definition}
        )
        await native.admin("topic.create", {"topic": TOPIC})
        yield Doors(server, native, http, calls, made["id"])


async def test_what_each_policy_takes_is_the_same_at_every_door(doors: Doors) -> None:
    assert await doors.taken(BAD, 0) == ALL  # nothing is bound yet
    for validation, payload, unnamed, wrong in (
        ("none", True, ALL, ALL),
        ("warn", True, ALL, ALL),
        ("enforce", False, NONE, ALL),
        ("enforce", True, NONE, NONE),
    ):
        await doors.bind(validation, payload=payload)
        assert await doors.taken(GOOD, 1) == ALL
        assert await doors.taken(GOOD, 0) == unnamed, validation
        assert await doors.taken(GOOD, 7) == unnamed, validation
        assert await doors.taken(BAD, 1) == wrong, validation
    counted = await doors.counted()
    assert counted['failures_total{result="taken"}'] == 9
    assert counted['failures_total{result="refused"}'] == 15
    assert counted["checks_total"] > 24
    text = (await doors.http("GET", "/metrics")).text
    for service, method, result in (
        ("danube.ProducerService", "SendMessage", "ok"),
        ("danube.ProducerService", "SendMessage", "error"),
        ("binary", "create_producer", "ok"),
        ("http", "messages.publish", "error"),
    ):
        labels = f'broker="broker-1",service="{service}",method="{method}",result="{result}"'
        assert f"danube_broker_rpc_total{{{labels}}}" in text


async def test_a_frame_is_refused_as_a_whole_and_the_next_one_is_taken(doors: Doors) -> None:
    await doors.bind("enforce", payload=True)
    async with doors.native.producer(
        TOPIC, schema_id=doors.schema_id, schema_version=1
    ) as producer:
        bad = await producer.send_many([GOOD, GOOD, BAD, GOOD])
        with pytest.raises(Refused, match=r"message 3 of a batch: .* at \$.age"):
            await bad
        await (await producer.send(GOOD))
    read = await doors.native.read(TOPIC, sulina.Start.earliest())
    assert [message.payload for batch in read for message in batch] == [GOOD]


async def test_frames_that_wait_for_their_schema_keep_their_order(doors: Doors) -> None:
    await doors.bind("enforce", payload=True)
    payloads = [json.dumps({"name": str(number), "age": 1}).encode() for number in range(300)]
    async with doors.native.producer(
        TOPIC, schema_id=doors.schema_id, schema_version=1, batch_records=3, linger_ms=0
    ) as producer:
        for payload in payloads[:150]:
            await producer.send(payload)
        # From here on nothing is looked at: what comes now must not overtake.
        await doors.bind("none", payload=False)
        for payload in payloads[150:]:
            await producer.send(payload)
    read = await doors.native.read(TOPIC, sulina.Start.earliest(), max_records=1000)
    assert [message.payload for batch in read for message in batch] == payloads


async def test_partitions_are_held_to_the_schema_of_their_topic(doors: Doors) -> None:
    topic = "/default/parted"
    await doors.native.admin("topic.create", {"topic": topic, "partitions": 2})
    await doors.bind("enforce", payload=True, topic=topic)
    part = f"{topic}-part-1"
    assert await doors.taken(BAD, 1, part) == NONE
    assert await doors.taken(GOOD, 1, part) == ALL


async def test_messages_carry_their_schema_through_http(doors: Doors) -> None:
    listed: dict[str, Any] = {
        "messages": [{"payload": "a", "schema_id": doors.schema_id, "schema_version": 1}] * 2
    }
    path = f"/api/v1/topics{TOPIC}/messages"
    body = json.dumps(listed).encode()
    headers = {"Content-Type": "application/vnd.sulina.messages+json"}
    await doors.http.ok("POST", path, data=body, headers=headers)
    found = await doors.http.ok("GET", f"{path}?start=earliest")
    assert [(row["schema_id"], row["schema_version"]) for row in found["messages"]] == [
        (doors.schema_id, 1)
    ] * 2
    listed["messages"].append({"payload": "b"})
    mixed = await doors.http("POST", path, data=json.dumps(listed).encode(), headers=headers)
    assert "one schema" in mixed.problem(400, "refused")


async def test_two_http_messages_with_different_schemas_are_both_stored(doors: Doors) -> None:
    path = f"/api/v1/topics{TOPIC}/messages"
    versions = [0, 1, 0, 1]

    async def publish(version: int) -> None:
        headers = {"Sulina-Schema-Id": str(doors.schema_id if version else 0)}
        headers["Sulina-Schema-Version"] = str(version)
        await doors.http.ok("POST", path, data=str(version).encode(), headers=headers)

    await asyncio.gather(*map(publish, versions))
    read = await doors.native.read(TOPIC, sulina.Start.earliest())
    found = [(each.payload, each.schema_version) for batch in read for each in batch]
    assert sorted(found) == [(b"0", 0), (b"0", 0), (b"1", 1), (b"1", 1)]


ORDERS = TopicName.parse("/default/orders")
PATIENCE = 20.0


@pytest.fixture
async def checks(registry: SchemaRegistry, store: MetadataStore) -> AsyncIterator[SchemaChecks]:
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    async with SchemaChecks(registry, store) as checks:
        yield checks


async def bind(
    checks: SchemaChecks, check: TopicSchemaCheck, validation: Validation, *, payload: bool = False
) -> int:
    """Register two versions, bind the topic, and wait until the check knows; returns the id."""
    registry = checks.registry
    await registry.register("orders", "json", text(NAME))
    made = await registry.register("orders", "json", text(NAME_AND_AGE))
    await registry.topics.configure(ORDERS, TopicSchemaRecord("orders", validation, payload))
    async with asyncio.timeout(PATIENCE):
        while check.config != TopicSchemaRecord("orders", validation, payload):
            await checks.prefix_caches[0].change()
        while not check.admits(made.id, 2):
            await checks.prefix_caches[1].change()
    return made.id


async def resolved(checks: SchemaChecks, topic: TopicName) -> TopicSchemaCheck:
    """The check of a topic, with its binding read from the store."""
    made = TopicSchemaCheck(checks, topic)
    await made.resolve()
    return made


async def test_a_change_holds_here_when_it_is_answered(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    await checks.registry.register("orders", "string", b"")
    for validation in (Validation.ENFORCE, Validation.WARN, Validation.NONE):
        await checks.registry.topics.configure(ORDERS, TopicSchemaRecord("orders", validation))
        assert check.config == TopicSchemaRecord("orders", validation)


async def test_a_topic_without_a_schema_takes_everything(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    assert check.config is None
    assert check.admits(0, 0) and check.admits(99, 7)
    await check.check(0, 0, b"anything")
    assert check.checked == check.failed == 0
    with pytest.raises(NotFound):
        await resolved(checks, TopicName.parse("/default/nothing"))


async def test_enforced_a_frame_is_refused_by_its_header_alone(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE)
    other = await checks.registry.register("users", "string", b"")
    assert check.admits(schema_id, 1) and check.admits(schema_id, 2)
    for names, why in (
        ((0, 0), "names no schema"),
        ((schema_id, 3), "not registered"),
        ((999, 1), "not registered"),
        ((other.id, 1), "of 'users'"),
    ):
        assert not check.admits(*names)
        with pytest.raises(InvalidPayload, match=why):
            await check.check_name(*names)
    await check.check(schema_id, 1, b"payloads are not looked at")
    assert check.failed == 4


async def test_enforced_payloads_are_those_of_the_version_that_is_named(
    checks: SchemaChecks,
) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE, payload=True)
    await check.check(schema_id, 1, b'{"age": "any"}')
    with pytest.raises(InvalidPayload, match="/default/orders accepts only 'orders' messages"):
        await check.check(schema_id, 2, b'{"age": "any"}')


async def test_with_a_warning_everything_is_taken_and_counted(
    checks: SchemaChecks, caplog: pytest.LogCaptureFixture
) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.WARN, payload=True)
    with caplog.at_level(logging.WARNING):
        for _ in range(8):
            await check.check(0, 0, b"")
            await check.check(schema_id, 2, b"not JSON")
            await check.check(999, 1, b"")
    assert check.failed == 24
    assert len(caplog.records) == 5


async def test_a_version_that_another_broker_registered_a_moment_ago_is_known(
    checks: SchemaChecks, store: MetadataStore
) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE, payload=True)
    other = open_registry(store, RealClock())
    await other.register("orders", "json", text({**NAME_AND_AGE, "title": "third"}))
    await check.check(schema_id, 3, b'{"age": 5}')


async def test_what_does_not_exist_is_asked_for_once(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    await bind(checks, check, Validation.WARN)
    asked = 0
    real = checks.registry.get

    async def counted(schema_id: int, number: int | None = None) -> object:
        nonlocal asked
        asked += 1
        return await real(schema_id, number)

    checks.registry.get = counted  # type: ignore[method-assign,assignment]
    for _ in range(10):
        await check.check(999, 1, b"")
    assert asked == 1


async def test_a_deleted_version_is_refused_when_the_watch_told(checks: SchemaChecks) -> None:
    check = await resolved(checks, ORDERS)
    schema_id = await bind(checks, check, Validation.ENFORCE)
    await checks.registry.delete_version("orders", 1)
    async with asyncio.timeout(PATIENCE):
        while check.admits(schema_id, 1):
            await checks.prefix_caches[1].change()
    with pytest.raises(InvalidPayload, match="not registered"):
        await check.check_name(schema_id, 1)


async def test_a_new_topic_does_not_inherit_from_a_deleted_one_of_its_name(
    checks: SchemaChecks, store: MetadataStore
) -> None:
    check = await resolved(checks, ORDERS)
    await bind(checks, check, Validation.ENFORCE)
    await topic_lifecycle.delete(store, ORDERS)
    await topic_lifecycle.create(store, ORDERS, TopicRecord())
    again = await resolved(checks, ORDERS)
    assert again.config is None and again.admits(0, 0)
