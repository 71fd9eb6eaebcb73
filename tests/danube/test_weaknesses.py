"""Thirteen weaknesses of Danube 0.15's brokers, each with what shows that Sulina does not have it.

By single calls of Danube's protocol: what matters is what brokers answer and keep, whichever client
asks.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import pytest
import pytest_asyncio

import sulina
from broker_containers.assembly.running import DoorSettings, LedgerStorage
from broker_containers.assembly.single import single_broker
from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.doors.danube.server import DanubeServer
from broker_containers.doors.danube.settings import DanubeListen, DanubeSettings
from broker_containers.doors.http.health import storage_nodes_check
from broker_containers.doors.listen import Listen
from broker_containers.metrics.collectors.storage import of_nodes
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings
from sulina.metadata.embedded import EmbeddedStore
from sulina.model import FailurePolicy, Start
from sulina.names import TopicName
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.real_clock import RealClock
from sulina.wire.decode import Frame
from tests.auth.broker import Guarded, guarded_broker
from tests.broker.memory_cluster import GatedDisk, MemoryCluster
from tests.danube.brokers import DanubeBrokers, OneBroker
from tests.danube.calls import Calls, status_of
from tests.owners.brokers import ThreeNodes

Code = grpc.StatusCode
TOPIC = "/default/weak"
QUICK = DanubeSettings(reopen_seconds=0.05, goodbye_seconds=0.0)


@asynccontextmanager
async def over(disk: MemoryDisk, metadata: MemoryDisk | None = None) -> AsyncIterator[Calls]:
    """Calls to a broker whose disks are in memory."""
    listen = DanubeListen(port=0, settings=QUICK)
    async with (
        MemoryCluster(disk, metadata=metadata) as cluster,
        DanubeServer(cluster.server.services, listen) as door,
        Calls(door.url) as calls,
    ):
        yield calls


async def take(calls: Calls, number: int, count: int) -> list[Any]:
    """So many messages of a consumer, each acknowledged."""
    stream = calls.stream(number)
    taken = []
    for _ in range(count):
        message = await stream.read()
        taken.append(message)
        await calls("Ack", msg_id=message.msg_id, subscription_name="s")
    stream.cancel()
    return taken


@pytest_asyncio.fixture(loop_scope="session")
async def calls(broker: OneBroker) -> AsyncIterator[Calls]:
    async with Calls(broker.url) as calls:
        yield calls


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def brokers() -> AsyncIterator[DanubeBrokers]:
    async with DanubeBrokers() as running:
        await running.start("one", "two")
        yield running


@pytest_asyncio.fixture(loop_scope="session", scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Guarded]:
    async with guarded_broker(tmp_path_factory.mktemp("guarded")) as running:
        yield running


@asynccontextmanager
async def owner_and_other(brokers: DanubeBrokers, topic: str) -> AsyncIterator[tuple[Calls, Calls]]:
    """Calls to the topic's owner, and to the other broker."""
    async with Calls(brokers.urls["one"]) as one, Calls(brokers.urls["two"]) as two:
        await asyncio.gather(*(status_of(each.producer(topic)) for each in (one, two)))
        first = await brokers.owner(topic) == "one"
        yield (one, two) if first else (two, one)


async def test_weakness_01_a_send_is_not_acknowledged_from_memory() -> None:
    disk = GatedDisk("write", "sync")
    async with over(disk) as calls:
        await calls.producer(TOPIC)
        await calls.send(TOPIC, b"makes the ledger")
        disk.close_gate()
        sending = asyncio.create_task(calls.send(TOPIC, b"not on disk yet"))
        await disk.blocked()
        done, _ = await asyncio.wait([sending], timeout=0.3)
        assert not done
        disk.open_gate()
        await sending


async def test_weakness_02_a_restart_does_not_begin_offsets_anew() -> None:
    disk, metadata = MemoryDisk(), MemoryDisk()
    async with over(disk, metadata) as calls:
        await calls.producer(TOPIC)
        for number in range(5):
            await calls.send(TOPIC, b"%d" % number)
        power_cut = disk.crash(random.Random(1)), metadata.crash(random.Random(1))
    async with over(*power_cut) as calls:
        number = await calls.subscribe(TOPIC)
        await calls.send(TOPIC, b"after")
        [message] = await take(calls, number, 1)
        assert message.msg_id.topic_offset == 5


async def test_weakness_03_a_move_deletes_neither_messages_nor_cursors(
    brokers: DanubeBrokers,
) -> None:
    topic = "/default/kept"
    async with owner_and_other(brokers, topic) as (owner, other):
        number = await owner.subscribe(topic)
        for payload in (b"done", b"open"):
            await owner.send(topic, payload)
        await take(owner, number, 1)
        await brokers.move(topic, await brokers.other(topic))
        # The cursor: what was acknowledged does not come again.
        [message] = await take(other, await other.subscribe(topic), 1)
        assert message.payload == b"open"
    async with brokers.client() as native:
        found = await native.read(topic, Start.earliest())
        assert [payload for batch in found for payload in batch.payloads] == [b"done", b"open"]


async def test_weakness_04_two_brokers_can_not_both_append_to_a_topic() -> None:
    """Neither knows of the other, as in a partition: the storage nodes fence the older one."""
    nodes, clock = ThreeNodes(), RealClock()
    store = await EmbeddedStore.open(clock)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(store.close)
        both = []
        for name in ("one", "two"):
            copies = QuorumSettings()
            storage = LedgerStorage(
                QuorumLedgers(nodes, store, clock, copies),
                storage_nodes_check(nodes, copies),
                of_nodes(nodes, copies),
            )
            doors = DoorSettings(Listen(port=0), danube=DanubeListen(port=0, settings=QUICK))
            running = await stack.enter_async_context(
                single_broker(doors, store, storage, clock, BrokerSettings(broker_id=name))
            )
            both.append(await stack.enter_async_context(Calls(running.addresses.grpc_url)))
        one, two = both
        acknowledged = []
        await one.producer(TOPIC)
        for calls, payload in ((one, b"1"), (two, b"2"), (one, b"3"), (two, b"4"), (one, b"5")):
            code = await status_of(calls.producer(TOPIC))
            if code is Code.OK:
                code = await status_of(calls.send(TOPIC, payload))
            assert code in (Code.OK, Code.UNAVAILABLE)
            acknowledged += [payload] if code is Code.OK else []
        assert acknowledged[:2] == [b"1", b"2"]
        last = Broker(
            QuorumLedgers(nodes, store, clock, QuorumSettings()), store, clock, BrokerSettings()
        )
        await stack.enter_async_context(last)
        log = (await last.topic(TopicName.parse(TOPIC))).log
        reader, frames = log.reader(0), []
        while found := await reader.read(1 << 20):
            frames += found
        stored = [payload for frame in frames for payload in Frame(frame.data).payloads]
        # One log, in which everything acknowledged is once, in order, without a gap.
        assert [each for each in stored if each in acknowledged] == acknowledged
        assert len(set(stored)) == len(stored)
        assert [frame.base for frame in frames] == list(range(len(frames)))


async def test_weakness_05_a_subscription_far_behind_skips_nothing_also_without_a_cursor() -> None:
    disk, metadata = MemoryDisk(), MemoryDisk()
    async with over(disk, metadata) as calls:
        await calls.producer(TOPIC)
        number = await calls.subscribe(TOPIC)
        async with asyncio.TaskGroup() as sending:
            for payload in range(300):
                sending.create_task(calls.send(TOPIC, b"%d" % payload))
        # Nothing was ever acknowledged, so there is no cursor to be stored.
        power_cut = disk.crash(random.Random(2)), metadata.crash(random.Random(2))
    async with over(*power_cut) as calls:
        assert await calls.subscribe(TOPIC) == number
        taken = await take(calls, number, 300)
    assert [message.msg_id.topic_offset for message in taken] == list(range(300))
    assert {message.payload for message in taken} == {b"%d" % each for each in range(300)}


async def test_weakness_06_a_limit_of_what_is_delivered_holds_back_and_drops_nothing(
    broker: OneBroker, calls: Calls, topic: str
) -> None:
    """Sulina has no rate for deliveries; the limit is what a consumer may have unacknowledged."""
    await calls.producer(topic)
    number = await calls.subscribe(topic, kind="Shared")
    async with asyncio.TaskGroup() as sending:
        for payload in range(300):
            sending.create_task(calls.send(topic, b"%d" % payload))
    stream = calls.stream(number)
    held = [await stream.read() for _ in range(256)]
    next_one = asyncio.create_task(stream.read())
    done, _ = await asyncio.wait([next_one], timeout=0.2)
    assert not done
    for message in held:
        await calls("Ack", msg_id=message.msg_id, subscription_name="s")
    rest = [await next_one, *[await stream.read() for _ in range(43)]]
    offsets = [message.msg_id.topic_offset for message in (*held, *rest)]
    assert offsets == list(range(300))
    stream.cancel()


async def test_weakness_07_a_standby_is_promoted_and_exclusive_is_not_for_ever(
    calls: Calls, topic: str
) -> None:
    await calls.producer(topic)
    for kind in ("Failover", "Exclusive"):
        first = await calls.subscribe(topic, "first", subscription=kind, kind=kind)
        stream = calls.stream(first)
        await calls.send(topic, b"held")
        await stream.read()
        if kind == "Failover":
            await calls.subscribe(topic, "second", subscription=kind, kind=kind)
        stream.cancel()  # which is how a stock client leaves
        async with asyncio.timeout(30):
            while True:
                try:
                    second = await calls.subscribe(topic, "second", subscription=kind, kind=kind)
                    break
                except grpc.aio.AioRpcError:
                    await asyncio.sleep(0.02)
        following = calls.stream(second)
        assert (await following.read()).payload == b"held"
        following.cancel()


async def test_weakness_08_topics_that_begin_alike_have_nothing_in_common(
    calls: Calls, topic: str
) -> None:
    longer = f"{topic}bar"
    for each in (topic, longer):
        await calls.producer(each)
    assert list((await calls("TopicPartitions", topic=topic)).partitions) == [topic]
    number = await calls.subscribe(topic)
    await calls.send(longer, b"not for it")
    await calls.send(topic, b"for it")
    [message] = await take(calls, number, 1)
    assert (message.payload, message.msg_id.topic_offset) == (b"for it", 0)


async def test_weakness_09_a_header_makes_nobody_an_administrator(guarded: Guarded) -> None:
    token = await guarded.token("modest", "consume:/default/other")
    header = {"x-danube-internal-broker": "broker/1"}
    async with Calls(guarded.grpc_url, token, **header) as calls:
        assert await status_of(calls.producer(TOPIC)) is Code.PERMISSION_DENIED
    async with Calls(guarded.grpc_url, **header) as calls:
        assert await status_of(calls.producer(TOPIC)) is Code.UNAUTHENTICATED


async def test_weakness_10_rights_on_one_topic_are_enough_to_consume_it(guarded: Guarded) -> None:
    token = await guarded.token("reader", f"consume:{TOPIC}")
    async with (
        guarded.root.producer(TOPIC) as producer,
        Calls(guarded.grpc_url, token) as calls,
    ):
        number = await calls.subscribe(TOPIC)
        await (await producer.send(b"twice"))
        stream = calls.stream(number)
        message = await stream.read()
        await calls("Nack", msg_id=message.msg_id, subscription_name="s", delay_ms=0)
        message = await stream.read()
        await calls("Ack", msg_id=message.msg_id, subscription_name="s")
        elsewhere = {"topic_name": "/default/elsewhere", "topic_offset": 0}
        code = await status_of(calls("Ack", msg_id=elsewhere, subscription_name="s"))
        assert code is Code.PERMISSION_DENIED
        stream.cancel()


async def test_weakness_11_an_acknowledgement_after_the_time_for_it_counts(
    broker: OneBroker, calls: Calls, topic: str
) -> None:
    await calls.producer(topic)
    policy = FailurePolicy(ack_timeout_ms=100, base_redelivery_delay_ms=60_000)
    async with sulina.connect(broker.native_url) as native:
        async with native.consumer(topic, "s", type="shared", failure_policy=policy):
            pass
        stream = calls.stream(await calls.subscribe(topic, kind="Shared"))
        await calls.send(topic, b"slow")
        message = await stream.read()

        async def about() -> dict[str, Any]:
            arguments = {"topic": topic, "subscription": "s"}
            found: dict[str, Any] = await native.admin("subscription.describe", arguments)
            return found

        while not (await about())["counters"]["timed_out"]:
            await asyncio.sleep(0.05)
        await calls("Ack", msg_id=message.msg_id, subscription_name="s")
        assert (await about())["backlog"] == 0
        stream.cancel()


async def test_weakness_12_who_is_gone_is_detached_so_that_limits_do_not_leak() -> None:
    settings = DanubeSettings(silent_seconds=3.0, sweep_seconds=0.1, goodbye_seconds=0.0)
    listen = DanubeListen(port=0, settings=settings)
    async with (
        MemoryCluster(MemoryDisk()) as cluster,
        DanubeServer(cluster.server.services, listen) as door,
        Calls(door.url) as calls,
    ):
        await calls.producer(TOPIC, "first")
        limits = {"max_producers_per_topic": 1, "max_consumers_per_topic": 1}
        await cluster.server.services.operations.run("topic.policy", {"topic": TOPIC, **limits})
        await calls.subscribe(TOPIC, "first", kind="Shared")
        newcomers: tuple[Callable[[], Awaitable[int]], ...] = (
            lambda: calls.producer(TOPIC, "second"),
            lambda: calls.subscribe(TOPIC, "second", kind="Shared"),
        )
        refused = [await status_of(call()) for call in newcomers]
        assert set(refused) <= {Code.UNAVAILABLE, Code.OK} and Code.UNAVAILABLE in refused
        for call in newcomers:
            while await status_of(call()) is not Code.OK:
                await asyncio.sleep(0.05)


async def test_weakness_13_a_move_is_told_in_a_way_that_clients_go_on(
    brokers: DanubeBrokers,
) -> None:
    topic = "/default/moved"
    async with owner_and_other(brokers, topic) as (old, new):
        number = await old.subscribe(topic)
        stream = old.stream(number)
        await old.send(topic, b"before")
        assert (await stream.read()).payload == b"before"
        await brokers.move(topic, await brokers.other(topic))
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await stream.read()
        assert ended.value.code() is Code.UNAVAILABLE
        assert await status_of(old.send(topic, b"astray")) is Code.UNAVAILABLE
        assert await status_of(old.producer(topic)) is Code.UNAVAILABLE
        assert await status_of(old.subscribe(topic)) is Code.UNAVAILABLE
        answer = await old("TopicLookup", topic=topic)
        assert answer.connect_url == brokers.urls[await brokers.owner(topic)]
        await new.send(topic, b"after")
        taken = await take(new, await new.subscribe(topic), 2)
        assert [message.payload for message in taken] == [b"before", b"after"]
