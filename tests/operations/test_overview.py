"""What brokers sample: rates, backlogs, subscriptions that need attention, pages of topics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.metrics import traffic
from broker_containers.metrics.traffic import TrafficSampler
from broker_containers.operations.overview import added_up
from sulina.metadata.embedded import EmbeddedStore
from sulina.operations.messages import NewMessage
from sulina.operations.overview import Concern, TrafficSample
from sulina.operations.topics import TopicOrder
from tests.http.test_cluster import two_brokers


@dataclass(frozen=True, slots=True)
class Sampled:
    client: sulina.Client
    sampler: TrafficSampler

    async def publish(self, topic: str, count: int = 1) -> None:
        await self.client.admin.messages.publish(topic, [NewMessage(b"x")] * count)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Sampled]:
    async with (
        run_embedded(tmp_path, DoorSettings(Listen(port=0))) as server,
        sulina.connect(server.addresses.url) as client,
    ):
        yield Sampled(client, server.services.sampler)


async def test_rates_are_of_the_last_interval_and_backlogs_of_now(broker: Sampled) -> None:
    await broker.publish("/default/one", 10)
    await broker.client.admin.subscriptions.create("/default/one", "late")
    await broker.sampler.take()
    assert broker.sampler.now.records_in == 0  # it was published before the first sample
    await broker.publish("/default/one", 50)
    await broker.sampler.take()
    shown = await broker.client.admin.overview.show()
    assert shown.total.records_in > 0 and shown.total.p99_ms is not None
    assert shown.total.backlog == 50
    [busy] = [each for each in shown.brokers[0].busiest if each.topic == "/default/one"]
    assert (busy.backlog, busy.records_in) == (50, shown.total.records_in)
    await broker.sampler.take()
    shown = await broker.client.admin.overview.show()
    assert (shown.total.records_in, shown.total.p99_ms) == (0, None)
    assert len(broker.sampler.history) == 3


async def test_subscriptions_that_need_attention_say_why(
    broker: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = "/default/work"
    await broker.publish(topic)
    start = sulina.Start.earliest()
    await broker.client.admin.subscriptions.create(topic, "forgotten", start=start)
    async with broker.client.consumer(topic, "failing", start=start) as consumer:
        await consumer.nack(await consumer.receive())
        await consumer.receive()
        await broker.sampler.take()
        found = await broker.client.admin.overview.attention()
        assert [(each.subscription, each.concern) for each in found] == [
            ("failing", Concern.FAILING),
            ("forgotten", Concern.NO_CONSUMERS),
        ]
        assert all(each.detail and each.topic == topic for each in found)
        monkeypatch.setattr(traffic, "_RECENT", 0.0)
        monkeypatch.setattr(traffic, "_MINUTE", 0.0)
        await broker.sampler.take()
        found = await broker.client.admin.overview.attention()
        assert found[0].concern is Concern.NO_PROGRESS
        for _ in range(2):
            await broker.publish(topic)
            await broker.sampler.take()
        found = await broker.client.admin.overview.attention()
        assert found[1].subscription == "forgotten" and found[1].concern is Concern.GROWING
        assert "no consumer is connected" in found[1].detail


async def test_messages_that_wait_for_their_delivery_time_are_nobodys_fault(
    broker: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, start = "/default/reminders", sulina.Start.earliest()
    async with (
        broker.client.producer(topic) as producer,
        broker.client.consumer(topic, "mail", start=start) as consumer,
    ):
        await (await producer.send(b"tomorrow", delay=86400))
        await broker.sampler.take()
        monkeypatch.setattr(traffic, "_MINUTE", 0.0)
        for number in range(3):
            await (await producer.send(b"now"))
            await consumer.ack(await consumer.receive())
            await consumer.flush_acks()
            await broker.sampler.take()
            assert not await broker.client.admin.overview.attention(), number
        await (await producer.send(b"now"))
        await consumer.receive()  # not acknowledged
        await broker.sampler.take()
        [found_one] = await broker.client.admin.overview.attention()
        assert found_one.concern is Concern.NO_PROGRESS


async def test_topics_come_in_pages_in_any_order(broker: Sampled) -> None:
    search = broker.client.admin.topics.search
    for number in range(5):
        await broker.publish(f"/default/t{number}", number + 1)
    await broker.client.admin.topics.create("/default/idle")
    await broker.client.admin.topics.create("/default/parted", partitions=2)
    await broker.publish("/default/parted-part-1", 10)

    async def names(**asked: object) -> list[str]:
        page = await search(**asked)  # type: ignore[arg-type]
        assert page.total == 7
        return [each.topic.removeprefix("/default/") for each in page.topics]

    assert await names(limit=3) == ["idle", "parted", "t0"]
    assert await names(skip=3, limit=2) == ["t1", "t2"]
    by_size = {"order": TopicOrder.RECORDS, "descending": True}
    assert await names(**by_size, limit=3) == ["parted", "t4", "t3"]
    assert await names(**by_size, skip=3, limit=9) == ["t2", "t1", "t0", "idle"]
    found = await search(text="PART")
    assert [(each.topic, each.partitions, each.records) for each in found.topics] == [
        ("/default/parted", 2, 10)
    ]


async def test_a_cluster_adds_up_what_its_brokers_sample(tmp_path: Path) -> None:
    async with two_brokers(tmp_path) as two:
        door = two.doors["broker-1"]
        for number in range(4):
            await door.ok("POST", "/api/v1/topics", {"topic": f"/default/t{number}"})
            await door("POST", f"/api/v1/topics/default/t{number}/messages", data=b"x")
        shown = await door.ok("GET", "/api/v1/overview")
        assert [each["broker"] for each in shown["brokers"]] == ["broker-1", "broker-2"]
        assert shown["silent"] == []
        for each in two.doors.values():
            path = "/api/v1/topic-search?namespace=default&order=records&descending=true"
            page = await each.ok("GET", path)
            assert page["total"] == 4 and {row["records"] for row in page["topics"]} == {1}


def test_an_interval_that_lacks_a_broker_is_not_shown_as_a_drop() -> None:
    def samples(*seconds: int) -> list[TrafficSample]:
        return [TrafficSample(each * 10**6, 5.0, 50.0, 0.0, 0.0, 3, None, None) for each in seconds]

    found = added_up([samples(1, 6, 11), samples(2, 7)])
    assert [each.records_in for each in found] == [10.0, 10.0]
    found = added_up([samples(1, 6, 11), samples(2, 7, 12)])
    assert [each.backlog for each in found] == [6, 6, 6]
    assert len(added_up([samples(1, 6, 11), []])) == 3


async def test_without_metadata_brokers_and_topics_are_still_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with two_brokers(tmp_path) as two:
        door = two.doors["broker-1"]
        for number in range(4):
            await door.ok("POST", "/api/v1/topics", {"topic": f"/default/t{number}"})
            await door("POST", f"/api/v1/topics/default/t{number}/messages", data=b"x")
        found = "/api/v1/topic-search?namespace=default"
        before = await door.ok("GET", found)
        back = asyncio.Event()

        def without_answer(call: Callable[..., Awaitable[object]]) -> Callable[..., object]:
            async def waits(store: EmbeddedStore, *given: object, **named: object) -> object:
                await back.wait()
                return await call(store, *given, **named)

            return waits

        for name in ("get", "range", "txn"):
            monkeypatch.setattr(EmbeddedStore, name, without_answer(getattr(EmbeddedStore, name)))
        try:
            shown, page = await asyncio.gather(
                door.ok("GET", "/api/v1/overview"), door.ok("GET", found)
            )
        finally:
            back.set()
        assert shown["silent"] == []
        states = [each["parts"]["metadata"] for each in shown["brokers"]]
        assert [state["ok"] for state in states] == [False, False]
        assert page == before
