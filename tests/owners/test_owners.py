"""Topics have one owner; clients find it and move with their topics; schemas come before ports."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.doors.listen import Listen
from broker_containers.load.move_log import MoveLog
from sulina import Client, FailurePolicy, NotFound, Refused, Start
from sulina.metadata.keys import load_balance, schemas
from sulina.metadata.store import Listing
from sulina.model import Poison
from sulina.names import TopicName
from sulina.operations.declaration import FORWARDED
from tests.owners.brokers import QUICK, Brokers
from tests.owners.cuttable import CuttableStore
from tests.schemas.json_shapes import NAME_AND_AGE


async def owner_of(client: Client, topic: str) -> str:
    return str((await client.admin("topic.lookup", {"topic": topic}))["broker"])


async def fill(client: Client, topics: list[str], payload: bytes = b"hello") -> None:
    for topic in topics:
        async with client.producer(topic) as producer:
            await (await producer.send(payload))


async def other_than(brokers: Brokers, name: str) -> str:
    return next(each for each in brokers.running if each != name)


async def test_one_address_is_enough_to_reach_every_topic(client: Client, brokers: Brokers) -> None:
    topics = [f"/default/t{number}" for number in range(6)]
    for topic, target in zip(topics, list(brokers.running) * 2, strict=True):
        await client.admin("topic.create", {"topic": topic})
        if await owner_of(client, topic) != target:
            await client.admin("topic.move", {"topic": topic, "broker": target})
    await fill(client, topics)
    for topic in topics:
        found = await client.read(topic, Start.earliest())
        assert [bytes(payload) for batch in found for payload in batch.payloads] == [b"hello"]
    owners = [await owner_of(client, topic) for topic in topics]
    assert owners == list(brokers.running) * 2


async def test_a_call_that_comes_before_the_owner_knows_of_its_topic_waits() -> None:
    async with Brokers() as brokers:
        await brokers.start("one")
        async with brokers.client() as client:
            await client.admin("topic.create", {"topic": "/default/new"})
            forwarded = {"topic": "/default/new", FORWARDED: True}
            assert await client.admin("subscription.list", forwarded) == []


class Flow:
    """A producer and a consumer of one topic, at work until told to stop."""

    def __init__(self, client: Client, topic: str) -> None:
        self._client = client
        self._topic = topic
        self.sent = 0
        self.got: list[int] = []
        self._working = True

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            consuming = tasks.create_task(self._consume())
            async with self._client.producer(self._topic, name="flow") as producer:
                while self._working:
                    await (await producer.send(b"%d" % self.sent))
                    self.sent += 1
            # Not by their number: what came twice would stand in for what is still to come.
            while len(set(self.got)) < self.sent:
                await asyncio.sleep(0.05)
            consuming.cancel()

    async def _consume(self) -> None:
        start = Start.earliest()
        async with self._client.consumer(self._topic, "flow", start=start) as consumer:
            async for batch in consumer.batches():
                self.got += [int(bytes(payload)) for payload in batch.payloads]
                await consumer.ack(batch)

    async def more(self, count: int = 20) -> None:
        """Wait until this many more records were received."""
        target = len(self.got) + count
        while len(self.got) < target:
            await asyncio.sleep(0.01)

    def stop(self) -> None:
        self._working = False

    def check(self) -> None:
        assert sorted(set(self.got)) == list(range(self.sent))


async def test_producers_and_consumers_move_with_their_topic(
    client: Client, brokers: Brokers
) -> None:
    flow = Flow(client, "/default/moving")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(flow.run())
        await flow.more()
        for _ in range(6):
            before = await owner_of(client, "/default/moving")
            target = await other_than(brokers, before)
            await client.admin("topic.move", {"topic": "/default/moving", "broker": target})
            await flow.more()
            assert await owner_of(client, "/default/moving") == target
        flow.stop()
    flow.check()


async def test_a_broker_that_stops_hands_its_topics_over(brokers: Brokers) -> None:
    async with brokers.client() as client:
        flow = Flow(client, "/default/handed-over")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(flow.run())
            await flow.more()
            for _ in range(2):
                await brokers.stop(await owner_of(client, "/default/handed-over"))
                await flow.more()
            flow.stop()
        flow.check()


async def test_a_drained_broker_has_no_topics_and_gets_none(
    client: Client, brokers: Brokers
) -> None:
    topics = [f"/default/d{number}" for number in range(9)]
    await fill(client, topics)
    await client.admin("broker.drain", {"broker": "two"})
    tables = brokers.running["one"].tables
    while any(True for _ in tables.topics_of("two")):
        await tables.prefix_cache.change()
    more = [f"/default/e{number}" for number in range(9)]
    await fill(client, more)
    assert "two" not in [await owner_of(client, topic) for topic in topics + more]
    await client.admin("broker.activate", {"broker": "two"})
    described = await client.admin("broker.describe", {"broker": "two"})
    assert described["mode"] == "active"


async def test_the_last_active_broker_can_not_be_drained(client: Client) -> None:
    for broker in ("one", "two"):
        await client.admin("broker.drain", {"broker": broker})
    with pytest.raises(Refused, match="only active broker"):
        await client.admin("broker.drain", {"broker": "three"})


async def test_administration_reaches_a_topic_wherever_it_is_served(
    client: Client, brokers: Brokers
) -> None:
    await client.admin("topic.create", {"topic": "/default/parts", "partitions": 6})
    async with client.producer("/default/parts") as producer:
        for number in range(60):
            await producer.send(b"%d" % number, key=str(number))
    for number in range(6):
        where = {"topic": f"/default/parts-part-{number}", "subscription": "s"}
        await client.admin("subscription.create", {**where, "start": "earliest"})
        assert (await client.admin("subscription.describe", where))["position"] == 0
    described = await client.admin("topic.describe", {"topic": "/default/parts"})
    assert sum(log["end_offset"] for log in described["logs"]) == 60
    assert all(len(log["subscriptions"]) == 1 for log in described["logs"])
    ledgers = await client.admin("topic.ledgers", {"topic": "/default/parts-part-0"})
    assert ledgers["epoch"] >= 1


async def test_only_the_partitions_of_a_topic_get_owners(client: Client, brokers: Brokers) -> None:
    parted = TopicName.parse("/default/parted")
    await client.admin("topic.create", {"topic": str(parted), "partitions": 2})
    with pytest.raises(Refused, match="2 partitions: name one of them"):
        await client.admin("subscription.list", {"topic": str(parted)})
    assert await client.admin("subscription.list", {"topic": str(parted.partition(0))}) == []
    for broker in brokers.running.values():
        assert broker.tables.owner(parted) is None


async def test_a_topic_can_be_deleted_from_any_broker(client: Client, brokers: Brokers) -> None:
    for name in brokers.running:
        topic = f"/default/doomed-{name}"
        await fill(client, [topic])
        if await owner_of(client, topic) != name:
            await client.admin("topic.move", {"topic": topic, "broker": name})
            while await owner_of(client, topic) != name:
                await asyncio.sleep(0.01)
        await client.admin("topic.delete", {"topic": topic})
        with pytest.raises(NotFound):
            await client.topic(topic)
    tables = brokers.running["one"].tables
    async with asyncio.timeout(60):  # its cache may be behind
        while any("doomed" in rest for rest in tables.owners.items):
            await tables.prefix_cache.change()


async def test_dead_letters_reach_a_topic_of_another_broker(
    client: Client, brokers: Brokers
) -> None:
    await fill(client, ["/default/source", "/default/letters"], b"poison")
    source = await owner_of(client, "/default/source")
    if await owner_of(client, "/default/letters") == source:
        target = await other_than(brokers, source)
        await client.admin("topic.move", {"topic": "/default/letters", "broker": target})
    policy = FailurePolicy(
        max_redelivery_count=1,
        base_redelivery_delay_ms=1,
        poison=Poison.DEAD_LETTER,
        dead_letter_topic="/default/letters",
    )
    async with (
        client.consumer("/default/letters", "undertaker", start=Start.latest()) as letters,
        client.consumer(
            "/default/source", "s", start=Start.earliest(), failure_policy=policy
        ) as consumer,
    ):
        for _ in range(2):
            message = await consumer.receive(timeout=20)
            await consumer.nack(message, reason="no good")
        letter = await letters.receive(timeout=20)
        assert letter.payload == b"poison"
        assert letter.attributes["x-original-topic"] == "/default/source"


async def test_the_leader_tells_what_it_makes_of_the_load_and_which_moves_it_made() -> None:
    settings = replace(QUICK, rebalance_seconds=0.2)
    async with asyncio.timeout(60), Brokers(settings) as brokers:
        await brokers.start("one", "two")
        async with brokers.client("one") as client:
            await fill(client, ["/default/told"])
            await client.admin("topic.move", {"topic": "/default/told"})
        while True:
            told = await brokers.store.get(load_balance.KEY)
            moves = await load_balance.last_moves(brokers.store)
            log = None if moves is None else MoveLog.from_bytes(moves, now=0.0)
            if told is not None and log is not None and log.since(-1e9):
                break  # before the move, the log may be told without it
            await asyncio.sleep(0.05)
        document = json.loads(told.value)
        assert {each["broker"] for each in document["brokers"]} == {"one", "two"}
        assert document["term"] == brokers.running["one"].tables.leader()[1]
        assert [move.topic for move in log.since(-1e9)] == ["/default/told"]

        await brokers.running["one"].election.step_down("the next leader tells it as well")
        tables = brokers.running["two"].tables
        while tables.leader()[0] != "two":
            await tables.prefix_cache.change()
        async with brokers.client("two") as client:
            history = await client.admin.balance.history()
        [moved] = history.moves
        assert (moved.why, moved.names, moved.topics) == ("manual", ("/default/told",), 1)
        assert {moved.source, moved.target} == {"one", "two"}
        assert sum(each.rounds for each in history.rounds) > 0 and history.rounds[0].reasons


async def test_leadership_moves_on_and_the_cluster_goes_on(
    client: Client, brokers: Brokers
) -> None:
    await fill(client, ["/default/before"])
    former = brokers.leader()
    await brokers.running[former].election.step_down("the test wants it")
    tables = brokers.running[former].tables
    while tables.leader()[0] in (None, former):
        await tables.prefix_cache.change()
    await fill(client, ["/default/before", "/default/after"])
    assert brokers.running[former].election.term == 0


async def test_a_broker_that_alone_lost_the_metadata_store_sends_its_clients_to_others(
    brokers: Brokers,
) -> None:
    async with brokers.client() as client:
        flow = Flow(client, "/default/out-of-touch")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(flow.run())
            await flow.more()
            lonely = await owner_of(client, "/default/out-of-touch")
            brokers.ways[lonely].cut()
            others = [name for name in brokers.running if name != lonely]
            tables = brokers.running[others[0]].tables
            while not any(True for name in others for _ in tables.topics_of(name)):
                await tables.prefix_cache.change()
            await flow.more(200)
            while not brokers.doors[lonely].binary.away:
                await asyncio.sleep(0.05)
            await flow.more(200)
            flow.stop()
        flow.check()
        brokers.ways[lonely].mend()
        while brokers.doors[lonely].binary.away:
            await asyncio.sleep(0.05)


async def test_when_nobody_reaches_the_metadata_store_everything_is_served_on(
    brokers: Brokers,
) -> None:
    async with brokers.client() as client:
        flow = Flow(client, "/default/no-store")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(flow.run())
            await flow.more()
            for way in brokers.ways.values():
                way.cut()
            while any(node.membership.lease is not None for node in brokers.running.values()):
                await asyncio.sleep(0.05)
            await flow.more(500)
            assert not any(brokers.doors[name].binary.away for name in brokers.running)
            for way in brokers.ways.values():
                way.mend()
            while any(node.membership.lease is None for node in brokers.running.values()):
                await asyncio.sleep(0.05)
            await flow.more()
            flow.stop()
        flow.check()


async def test_a_lease_that_outlives_the_connection_is_not_taken_for_contact() -> None:
    """Leases end one after the other: the first broker without one must not leave its clients."""
    async with Brokers(replace(QUICK, lease_seconds=60)) as brokers:
        await brokers.start("one")
        async with brokers.client() as client:
            assert (await client.admin.cluster.standing()).in_touch
            brokers.ways["one"].cut()
            assert brokers.running["one"].membership.lease is not None
            assert not (await client.admin.cluster.standing()).in_touch


async def test_behind_one_address_any_broker_leads_to_the_owner() -> None:
    async with asyncio.timeout(60), Brokers() as brokers:
        await brokers.start("one")
        # Clients can only reach "one", as if it were a load balancer.
        await brokers.start("two", proxy_url=brokers.url("one"))
        proxied: Any = brokers.running["one"].ownership
        proxied.settings = brokers.running["two"].ownership.settings
        async with sulina.connect(brokers.url("one")) as client:
            await client.admin("topic.create", {"topic": "/default/far"})
            if await owner_of(client, "/default/far") != "two":
                await client.admin("topic.move", {"topic": "/default/far", "broker": "two"})
            flow = Flow(client, "/default/far")
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(flow.run())
                await flow.more(200)
                assert await owner_of(client, "/default/far") == "two"
                await client.admin("topic.move", {"topic": "/default/far", "broker": "one"})
                await flow.more(200)
                flow.stop()
            flow.check()


TOPIC = "/default/people"


class OnePort(Brokers):
    """Brokers that listen on one port, one after the other."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    def door_settings(self, name: str) -> DoorSettings:
        return DoorSettings(Listen(port=self._port))


async def test_a_client_that_reconnects_while_a_broker_starts_is_held_to_the_schema(
    unused_tcp_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    loading, loaded = asyncio.Event(), asyncio.Event()
    plain = CuttableStore.range

    async def slow_for_schemas(self: CuttableStore, prefix: str, **more: object) -> Listing:
        if prefix.startswith(schemas.BOUND):
            loading.set()
            await loaded.wait()
        return await plain(self, prefix, **more)  # type: ignore[arg-type]

    async with asyncio.timeout(60), OnePort(unused_tcp_port) as brokers:
        await brokers.start("one")
        async with sulina.connect(brokers.url("one")) as client:
            definition = json.dumps(NAME_AND_AGE)
            subject = {"subject": "people", "type": "json", "definition": definition}
            made = await client.admin("schema.register", subject)
            await client.admin("topic.create", {"topic": TOPIC})
            rule = {"subject": "people", "validation": "enforce", "payload": True}
            await client.admin("schema.bind", {"topic": TOPIC, **rule})
            async with client.producer(TOPIC, schema_id=made["id"], schema_version=1) as producer:
                await brokers.stop("one")
                monkeypatch.setattr(CuttableStore, "range", slow_for_schemas)
                starting = asyncio.create_task(brokers.start("one"))
                await loading.wait()
                with pytest.raises(ConnectionRefusedError):
                    await asyncio.open_connection("127.0.0.1", unused_tcp_port)
                loaded.set()
                await starting
                with pytest.raises(Refused, match="people"):
                    await (await producer.send(b'{"age": "many"}'))
