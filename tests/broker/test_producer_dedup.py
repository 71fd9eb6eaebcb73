"""De-duplication: records that are sent again are stored once, in order."""

from __future__ import annotations

import pytest

import sulina
from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from sulina import Client, Delivery, Refused, UnknownOutcome
from sulina.wire import commands_pb2 as pb
from tests.broker.actions import (
    bodies,
    eventually,
    log_of,
    numbered,
    publish,
    read_all,
    read_messages,
    send,
    take,
    until_it_raises,
)
from tests.broker.cluster import Cluster
from tests.broker.conftest import MakeCluster
from tests.broker.peer import Peer, frame_of
from tests.broker.proxy import Proxy

TOPIC = "/default/dedup"
REPEATED = -1


# ---- the same frame again, command by command ----


async def test_a_frame_that_is_sent_again_is_stored_once(cluster: Cluster, client: Client) -> None:
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "p")).producer
        frame = frame_of("p", 0, numbered(3))
        peer.publish(producer, 0, frame)
        assert (await peer.next(pb.Published)).base_offsets == [0]
        peer.publish(producer, 1, frame)
        assert (await peer.next(pb.Published)).base_offsets == [REPEATED]
    assert await read_all(client, TOPIC) == numbered(3)
    assert (await log_of(client, TOPIC))["counters"]["repeats"] == 1


async def test_a_repeat_is_confirmed_only_when_the_first_is_durable(
    cluster: Cluster, client: Client
) -> None:
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "p")).producer
        frame = frame_of("p", 0, numbered(3))
        peer.publish(producer, 0, frame)
        peer.publish(producer, 1, frame)  # while the first is on its way to the disk
        offsets: list[int] = []
        while len(offsets) < 2:
            offsets += (await peer.next(pb.Published)).base_offsets
        assert offsets == [0, REPEATED]
    assert await read_all(client, TOPIC) == numbered(3)


async def test_a_frame_that_is_sent_again_after_a_restart_of_the_broker_is_stored_once(
    cluster: Cluster,
) -> None:
    frame = frame_of("p", 0, numbered(3))
    for expected in (0, REPEATED, REPEATED):
        async with Peer(cluster.port) as peer:
            producer = (await peer.producer(TOPIC, "p")).producer
            peer.publish(producer, 0, frame)
            assert (await peer.next(pb.Published)).base_offsets == [expected]
        await cluster.restart()
    async with cluster.client() as client:
        assert await read_all(client, TOPIC) == numbered(3)


async def test_sequences_are_known_again_from_a_ledger_in_which_the_producer_wrote_nothing(
    make_cluster: MakeCluster,
) -> None:
    cluster = await make_cluster(BrokerSettings(ledger=LedgerSettings(roll_bytes=1000)))
    early = frame_of("early", 0, numbered(3))
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "early")).producer
        peer.publish(producer, 0, early)
        await peer.next(pb.Published)
    async with cluster.client() as client:
        await publish(client, TOPIC, [b"x" * 500] * 20)
        assert len((await log_of(client, TOPIC))["ledgers"]) > 5
    await cluster.restart()
    async with Peer(cluster.port) as peer:
        created = await peer.producer(TOPIC, "early")
        assert created.last_sequence == 2
        peer.publish(created.producer, 0, early)
        assert (await peer.next(pb.Published)).base_offsets == [REPEATED]


async def test_a_frame_that_overlaps_with_what_is_stored_is_refused(
    cluster: Cluster, client: Client
) -> None:
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "p")).producer
        peer.publish(producer, 0, frame_of("p", 0, numbered(3)))
        await peer.next(pb.Published)
        peer.publish(producer, 1, frame_of("p", 2, numbered(3)))
        failed = await peer.next(pb.PublishFailed)
        assert failed.error.kind == pb.REFUSED
        assert "must be sent again unchanged" in failed.error.message
        peer.publish(producer, 2, frame_of("p", 3, [b"goes on"]))
        assert (await peer.next(pb.Published)).base_offsets == [3]
    assert await read_all(client, TOPIC) == [*numbered(3), b"goes on"]


# ---- lost connections ----


async def test_records_whose_confirmation_was_lost_are_stored_once(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    async with remote.producer(TOPIC) as producer:
        await (await producer.send(b"0"))
        proxy.hold_answers()
        tickets = [await producer.send(b"%d" % number) for number in range(1, 5)]

        async def stored() -> bool:
            return bool((await log_of(client, TOPIC))["end_offset"] == 5)

        await eventually(stored)
        assert not any(ticket.done() for ticket in tickets)
        proxy.cut()
        assert {(await ticket).offset for ticket in tickets} == {REPEATED}
        assert (await (await producer.send(b"5"))).offset == 5
    assert await read_all(client, TOPIC) == numbered(6)


async def test_non_reliable_records_in_doubt_fail_and_never_come_twice(
    client: Client, remote: Client, proxy: Proxy
) -> None:
    async with (
        remote.producer(TOPIC, delivery=Delivery.NON_RELIABLE) as producer,
        client.consumer(TOPIC, "s") as consumer,
    ):
        await (await producer.send(b"0"))
        proxy.hold_answers()
        ticket = await producer.send(b"1")
        assert [m.payload for m in await take(consumer, 2)] == [b"0", b"1"]
        proxy.cut()
        with pytest.raises(UnknownOutcome):
            await ticket
        await (await producer.send(b"2"))
        assert (await consumer.receive(10)).payload == b"2"


# ---- names ----


async def test_a_named_producer_continues_its_sequence_after_a_restart_of_the_broker(
    cluster: Cluster,
) -> None:
    for run in range(3):
        async with cluster.client() as client:
            await publish(client, TOPIC, numbered(4, first=4 * run), name="meter")
        await cluster.restart()
    async with cluster.client() as client:
        messages = await read_messages(client, TOPIC)
        assert [message.sequence for message in messages] == list(range(12))
        assert bodies(messages) == numbered(12)


async def test_a_producer_whose_name_another_used_meanwhile_is_told(
    client: Client, proxy: Proxy
) -> None:
    async with sulina.connect(proxy.url) as away:
        producer = await away.producer(TOPIC, name="meter").open()
        await (await producer.send(b"0"))
        proxy.cut_and_refuse()
        await publish(client, TOPIC, numbered(2, first=1), name="meter")
        proxy.allow()

        why = await until_it_raises(Refused, lambda: send(producer, b"not mine"))
        assert "another producer named 'meter'" in why
        await producer.abandon()
    assert await read_all(client, TOPIC) == numbered(3)


async def test_each_partition_has_its_own_sequences(cluster: Cluster, client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 3})
    for run in range(2):
        keys = [f"key-{number}" for number in range(30)]
        await publish(client, TOPIC, numbered(30, first=30 * run), keys=keys, name="meter")
    seen: list[int] = []
    for part in range(3):
        messages = await read_messages(client, f"{TOPIC}-part-{part}")
        assert [message.sequence for message in messages] == list(range(len(messages)))
        seen += [int(message.payload) for message in messages]
    assert sorted(seen) == list(range(60))
