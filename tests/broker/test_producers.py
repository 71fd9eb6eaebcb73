"""Producers that come and go, take-overs, refused frames, and the transports of uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from broker_containers.broker.settings import BrokerSettings
from sulina import Client, Delivery, NotFound, Refused
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from sulina.wire.encode import Origin, encode_control_frame
from tests.broker.actions import (
    ack_all,
    bodies,
    log_of,
    look,
    numbered,
    publish,
    read_all,
    send,
    take,
    until_it_raises,
)
from tests.broker.cluster import Cluster
from tests.broker.peer import Peer, frame_of

TOPIC = "/default/producers"


async def producers(client: Client) -> list[str]:
    found = (await log_of(client, TOPIC))["producers"]
    assert isinstance(found, list)
    return found


# ---- exclusive ----


async def test_an_exclusive_producer_keeps_others_out_while_it_is_there(client: Client) -> None:
    async with client.producer(TOPIC, name="alone", exclusive=True) as alone:
        with pytest.raises(Refused, match="has an exclusive producer, 'alone'"):
            await client.producer(TOPIC).open()
        with pytest.raises(Refused, match="has an exclusive producer, 'alone'"):
            await client.producer(TOPIC, exclusive=True).open()
        await (await alone.send(b"mine"))
    await publish(client, TOPIC, [b"ours"])
    assert await read_all(client, TOPIC) == [b"mine", b"ours"]


async def test_a_topic_with_producers_takes_no_exclusive_one(client: Client) -> None:
    async with client.producer(TOPIC):
        with pytest.raises(Refused, match="other producers: an exclusive producer must be alone"):
            await client.producer(TOPIC, exclusive=True).open()
    async with client.producer(TOPIC, exclusive=True):
        pass


# ---- the same name ----


async def test_a_producer_of_the_same_name_takes_over_and_the_first_is_told(
    client: Client,
) -> None:
    first = await client.producer(TOPIC, name="meter").open()
    await (await first.send(b"0"))
    async with client.producer(TOPIC, name="meter") as second:
        assert (await (await second.send(b"1"))).offset == 1

        why = await until_it_raises(Refused, lambda: send(first, b"too late"))
        assert "another producer named 'meter' took over" in why
        assert (await (await second.send(b"2"))).offset == 2
    await first.abandon()
    assert await read_all(client, TOPIC) == numbered(3)


async def test_an_exclusive_producer_may_be_replaced_by_one_of_its_own_name(
    client: Client,
) -> None:
    first = await client.producer(TOPIC, name="leader", exclusive=True).open()
    async with client.producer(TOPIC, name="leader", exclusive=True) as second:
        await (await second.send(b"from the second"))
        with pytest.raises(Refused, match="has an exclusive producer, 'leader'"):
            await client.producer(TOPIC, name="other").open()
    await first.abandon()


# ---- frames that are not accepted ----


async def test_a_corrupt_frame_is_refused_and_the_producer_goes_on(
    cluster: Cluster, client: Client
) -> None:
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "p")).producer
        peer.publish(producer, 0, frame_of("p", 0, [b"good"]))
        await peer.next(pb.Published)
        damaged = bytearray(frame_of("p", 1, [b"damaged on its way"]))
        damaged[-5] ^= 1
        peer.publish(producer, 1, damaged)
        peer.publish(producer, 2, b"no frame at all")
        peer.publish(producer, 3, frame_of("p", 2, [b"good too"]))
        first, second = await peer.next(pb.PublishFailed), await peer.next(pb.PublishFailed)
        assert (first.number, first.error.kind) == (1, pb.REFUSED)
        assert "checksum does not match" in first.error.message
        assert (second.number, second.error.kind) == (2, pb.REFUSED)
        published = await peer.next(pb.Published)
        assert (published.first_number, list(published.base_offsets)) == (3, [1])
    assert await read_all(client, TOPIC) == [b"good", b"good too"]


async def test_a_frame_under_another_producers_name_is_refused(
    cluster: Cluster, client: Client
) -> None:
    async with Peer(cluster.port) as peer:
        producer = (await peer.producer(TOPIC, "honest")).producer
        peer.publish(producer, 0, frame_of("somebody else", 0, [b"forged"]))
        failed = await peer.next(pb.PublishFailed)
        assert "not sent by producer 'honest'" in failed.error.message
        control = encode_control_frame(Origin("honest"), b"", 0)
        peer.publish(producer, 1, control)
        assert (await peer.next(pb.PublishFailed)).error.kind == pb.REFUSED
    assert await read_all(client, TOPIC) == []


async def test_frames_for_a_producer_that_was_closed_are_dropped(
    cluster: Cluster, client: Client
) -> None:
    async with Peer(cluster.port) as peer:
        closed = (await peer.producer(TOPIC, "closed")).producer
        goodbye = pb.CloseProducer(producer=closed)
        await peer.ask(Command.CLOSE_PRODUCER, goodbye, pb.Done)
        producer = (await peer.producer(TOPIC, "p")).producer
        peer.publish(closed, 0, frame_of("closed", 0, [b"to nobody"]))
        peer.publish(producer, 0, frame_of("p", 0, [b"mine"]))
        assert (await peer.next(pb.Published)).base_offsets == [0]
    assert await read_all(client, TOPIC) == [b"mine"]


# ---- topics ----


async def test_a_producer_makes_its_topic_unless_it_shall_not(client: Client) -> None:
    with pytest.raises(NotFound, match="there is no topic /default/producers"):
        await client.producer(TOPIC, create=False).open()
    await publish(client, TOPIC, [b"made"])
    assert (await client.topic(TOPIC)).delivery is Delivery.RELIABLE


async def test_a_producer_that_wants_another_delivery_is_refused(client: Client) -> None:
    await publish(client, TOPIC, [b"reliable"])
    with pytest.raises(Refused, match="is reliable, not non_reliable"):
        await client.producer(TOPIC, delivery="non_reliable").open()


async def test_a_producer_of_a_deleted_topic_is_told(client: Client) -> None:
    async with client.producer(TOPIC) as producer:
        await (await producer.send(b"0"))
        await client.admin("topic.delete", {"topic": TOPIC})

        why = await until_it_raises(NotFound, lambda: send(producer, b"1"))
        assert "was deleted" in why
        await producer.abandon()
    with pytest.raises(NotFound):
        await client.topic(TOPIC)


uvloop = pytest.importorskip("uvloop")


def run(tmp_path: Path, scenario: Callable[[Cluster], Awaitable[None]]) -> None:
    """The scenario with a cluster of its own, broker and client on one uvloop."""

    async def whole() -> None:
        assert type(asyncio.get_running_loop()).__module__.startswith("uvloop")
        async with Cluster(tmp_path, BrokerSettings(cache_bytes=64 << 10)) as cluster:
            await scenario(cluster)

    uvloop.run(whole())


def test_records_of_every_size_arrive_in_order(tmp_path: Path) -> None:
    payloads = [bytes([number % 256]) * (7**number % 200_003) for number in range(60)]

    async def scenario(cluster: Cluster) -> None:
        async with cluster.client() as client:
            async with client.consumer(TOPIC, "s") as consumer:
                await publish(client, TOPIC, payloads, batch_records=3)
                messages = await take(consumer, len(payloads))
                assert bodies(messages) == payloads
                await ack_all(consumer, messages)
            assert (await look(client, TOPIC, "s"))["backlog"] == 0

    run(tmp_path, scenario)


def test_a_consumer_that_never_reads_its_socket_costs_a_bounded_buffer(tmp_path: Path) -> None:
    async def scenario(cluster: Cluster) -> None:
        async with Peer(cluster.port, small_buffers=True) as stuck, cluster.client() as client:
            await stuck.subscribe(TOPIC, "stuck", records=1 << 30, bytes_=1 << 40)
            await publish(client, TOPIC, [b"." * (256 << 10)] * 80)
            await client.ping()
            (found,) = (await look(client, TOPIC, "stuck"))["consumers"]
            assert found["sent"] < 60, "of eighty"

    run(tmp_path, scenario)
