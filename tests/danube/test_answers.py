"""Replies to single calls, as stock clients need them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import pytest_asyncio

import sulina
from broker_containers.doors.danube import danube_pb2 as pb
from broker_containers.doors.danube.forwarding import Forwarder
from sulina.errors import Unavailable
from sulina.model import Start
from sulina.names import TopicName
from tests.danube.brokers import DanubeBrokers, OneBroker, one_broker
from tests.danube.calls import Calls, status_of

Code = grpc.StatusCode


@pytest_asyncio.fixture(loop_scope="session")
async def calls(broker: OneBroker) -> AsyncIterator[Calls]:
    async with Calls(broker.url) as open_:
        yield open_


async def test_a_lookup_tells_where_to_connect(calls: Calls, broker: OneBroker, topic: str) -> None:
    await calls.producer(topic)
    answer = await calls("TopicLookup", topic=topic, request_id=7)
    assert answer.response_type == pb.TopicLookupResponse.Connect
    assert answer.connect_url == answer.broker_url == broker.url
    assert (answer.request_id, answer.proxy) == (7, False)


async def test_what_is_not_there_or_no_name_is_told_so(calls: Calls, topic: str) -> None:
    assert await status_of(calls("TopicLookup", topic=topic)) is Code.NOT_FOUND
    assert await status_of(calls("TopicLookup", topic="/a/b/c")) is Code.INVALID_ARGUMENT
    assert await status_of(calls.producer("no name")) is Code.INVALID_ARGUMENT
    assert await status_of(calls.subscribe(topic)) is Code.NOT_FOUND
    assert (await calls("TopicPartitions", topic=topic)).partitions == []


async def test_partitions_are_those_that_producers_created(calls: Calls, topic: str) -> None:
    await asyncio.gather(*(calls.producer(f"{topic}-part-{n}", f"p-{n}") for n in (2, 0, 3, 1)))
    answer = await calls("TopicPartitions", topic=topic)
    assert answer.partitions == [f"{topic}-part-{number}" for number in range(4)]
    assert (await calls("TopicPartitions", topic=f"{topic}-part-0")).partitions == [
        f"{topic}-part-0"
    ]


async def test_a_partition_of_a_topic_without_partitions_is_refused(
    calls: Calls, topic: str
) -> None:
    await calls.producer(topic)
    assert await status_of(calls.producer(f"{topic}-part-0")) is Code.ALREADY_EXISTS


async def test_a_partition_never_takes_the_place_of_another_topic(
    calls: Calls, broker: OneBroker, topic: str
) -> None:
    await calls.producer(f"{topic}-part-0")
    async with sulina.connect(broker.native_url) as native:
        await native.admin("topic.create", {"topic": f"{topic}-part-2"})
    assert await status_of(calls.producer(f"{topic}-part-3")) is Code.ALREADY_EXISTS
    await calls.producer(f"{topic}-part-1")
    answer = await calls("TopicPartitions", topic=topic)
    assert answer.partitions == [f"{topic}-part-0", f"{topic}-part-1"]


async def test_a_producer_that_comes_again_is_the_same(calls: Calls, topic: str) -> None:
    assert await calls.producer(topic) == await calls.producer(topic)
    assert await status_of(calls.producer(topic, reliable=False)) is Code.FAILED_PRECONDITION


async def test_a_message_names_its_producer_which_is_enough(calls: Calls, topic: str) -> None:
    await calls.producer(topic, "known")
    answer = await calls.send(topic, b"from one that was never created", "unknown", request_id=5)
    assert answer.request_id == 5


async def test_a_consumer_that_comes_again_is_the_same_and_gets_what_it_left(
    calls: Calls, topic: str
) -> None:
    await calls.producer(topic)
    number = await calls.subscribe(topic)
    await calls.send(topic, b"one")  # before a stream is there
    first = calls.stream(number)
    message = await first.read()
    assert message.payload == b"one"
    assert await calls.subscribe(topic) == number
    second = calls.stream(number)
    assert (await second.read()).msg_id == message.msg_id
    assert await status_of(first.read()) is Code.UNAVAILABLE
    await calls("Ack", msg_id=message.msg_id, subscription_name="s")
    await calls("Ack", msg_id=message.msg_id, subscription_name="s")  # twice does no harm
    second.cancel()


async def test_a_stream_of_an_unknown_consumer_ends_as_unavailable_and_not_at_once(
    calls: Calls,
) -> None:
    began = time.monotonic()
    assert await status_of(calls.stream(12345).read()) is Code.UNAVAILABLE
    assert time.monotonic() - began > 0.5


async def test_health_checks_never_fail(calls: Calls, topic: str) -> None:
    kinds, states = pb.HealthCheckRequest, pb.HealthCheckResponse
    producer = await calls.producer(topic)
    consumer = await calls.subscribe(topic)
    answers = [
        await calls("HealthCheck", client=kind, id=number)
        for kind, number in (
            (kinds.Producer, producer),
            (kinds.Consumer, consumer),
            (kinds.Producer, consumer),
            (kinds.Consumer, 99),
        )
    ]
    wanted = [states.OK, states.OK, states.CLOSE, states.CLOSE]
    assert [answer.status for answer in answers] == wanted


async def test_nothing_happens_to_acknowledgements_of_unreliable_topics(
    calls: Calls, topic: str
) -> None:
    await calls.producer(topic, reliable=False)
    place = pb.MsgID(topic_name=topic, topic_offset=3)
    await calls("Ack", msg_id=place, subscription_name="none")
    await calls("Nack", msg_id=place, subscription_name="none")


async def test_what_is_too_large_is_refused_and_never_exhausts(calls: Calls, topic: str) -> None:
    await calls.producer(topic)
    await calls.send(topic, bytes((4 << 20) - (8 << 10)))
    for size in (4 << 20, 7 << 20):
        assert await status_of(calls.send(topic, bytes(size))) is Code.INVALID_ARGUMENT


async def test_where_nobody_is_asked_any_key_gets_a_token_and_any_token_will_do(
    calls: Calls, broker: OneBroker, topic: str
) -> None:
    token = (await calls("Authenticate", api_key="a key")).token
    async with Calls(broker.url, token) as shown:
        await shown.producer(topic)


async def test_messages_that_arrive_together_share_a_frame(
    calls: Calls, broker: OneBroker, topic: str
) -> None:
    await calls.producer(topic)
    async with asyncio.TaskGroup() as tasks:
        for number in range(100):
            tasks.create_task(calls.send(topic, b"%d" % number))
    start = Start.earliest()
    async with (
        sulina.connect(broker.native_url) as native,
        native.consumer(topic, "frames", start=start) as consumer,
    ):
        sizes: list[int] = []
        while sum(sizes) < 100:
            sizes.append(len(await consumer.receive_batch(30)))
    assert len(sizes) < 50


async def test_closed_ledgers_are_told_as_segments(broker: OneBroker, tmp_path: Path) -> None:
    topic = "/default/segments"
    async with one_broker(tmp_path) as first, Calls(first.url) as calls:
        await calls.producer(topic)
        for number in range(3):
            await calls.send(topic, b"%d" % number)
        assert (await calls("ListSegmentDescriptors", topic=topic)).segments[:] == []
    async with one_broker(tmp_path) as second, Calls(second.url) as calls:
        (segment,) = (await calls("ListSegmentDescriptors", topic="default/segments")).segments
        assert (segment.start_offset, segment.end_offset) == (0, 2)
        assert segment.size > 0 and segment.segment_id and segment.etag
        after = await calls("ListSegmentDescriptors", topic=topic, after_offset=3)
        assert not after.segments
        assert await status_of(calls("ListSegmentDescriptors", topic="/a/b")) is Code.NOT_FOUND


async def test_a_broker_that_is_not_the_owner_says_so_in_a_way_that_clients_try_again() -> None:
    async with DanubeBrokers() as brokers:
        await brokers.start("one", "two")
        topic = "/default/elsewhere"
        async with Calls(brokers.urls["one"]) as one, Calls(brokers.urls["two"]) as two:
            created = [await status_of(calls.producer(topic)) for calls in (one, two)]
            assert sorted(code.name for code in created) == ["OK", "UNAVAILABLE"]
            here, there = (one, two) if created[0] is Code.OK else (two, one)
            assert await status_of(there.send(topic, b"one")) is Code.UNAVAILABLE
            assert await status_of(there.subscribe(topic)) is Code.UNAVAILABLE
            answer = await there("TopicLookup", topic=topic)
            owner = await brokers.owner(topic)
            assert answer.response_type == pb.TopicLookupResponse.Redirect
            assert answer.connect_url == answer.broker_url == brokers.urls[owner]
            number = await here.subscribe(topic)
            close = pb.HealthCheckResponse.CLOSE
            check = pb.HealthCheckRequest.Consumer
            assert (await there("HealthCheck", client=check, id=number)).status == close
            await here.send(topic, b"two")
            message = await here.stream(number).read()
            await there("Ack", msg_id=message.msg_id, subscription_name="s")  # passed on
            node = brokers.running[owner]
            found = await node.broker.topic(TopicName.parse(topic))
            assert found.subscription("s").backlog == 0


async def test_a_broker_dials_no_address_that_a_client_names(broker: OneBroker) -> None:
    dialled = asyncio.Event()

    async def accept(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialled.set()
        writer.close()

    other = await asyncio.start_server(accept, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    headers = {"x-danube-broker-url": f"http://127.0.0.1:{port}"}
    async with Calls(broker.url, **headers) as calls:
        for client in (pb.HealthCheckRequest.Producer, pb.HealthCheckRequest.Consumer):
            answer = await calls("HealthCheck", client=client, id=424242)
            assert answer.status == pb.HealthCheckResponse.CLOSE
    other.close()
    assert not dialled.is_set()


async def test_only_members_of_the_cluster_are_called() -> None:
    forwarder = Forwarder(lambda: ["http://127.0.0.1:1/"])
    request = pb.HealthCheckRequest()
    stream = forwarder.stream("http://127.0.0.1:2", "/x/y", request, None)  # type: ignore[arg-type]
    with pytest.raises(Unavailable, match="is not a broker of this cluster: look the topic up"):
        await anext(stream)
    await forwarder.close()


async def test_acknowledgements_at_once_reach_the_subscriptions_that_they_name(
    calls: Calls, broker: OneBroker, topic: str
) -> None:
    topics = [f"{topic}-{letter}" for letter in "ab"]
    for each in topics:
        await calls.producer(each)
        for subscription in ("s", "t"):
            await calls.subscribe(each, subscription=subscription)
        await asyncio.gather(*(calls.send(each, b"x") for _ in range(8)))

    def ack(named: str, subscription: str, offset: int) -> Any:
        where = pb.MsgID(topic_name=named, topic_offset=offset)
        return calls("Ack", msg_id=where, subscription_name=subscription)

    first, second = topics
    named = [(first, "s", 5), (second, "t", 7), (first.removeprefix("/"), "s", 2)]
    acks = [ack(name, of, offset) for name, of, most in named for offset in range(most)]
    *answers, missing = await asyncio.gather(
        *acks, ack(first, "no such subscription", 0), return_exceptions=True
    )
    assert all(isinstance(each, pb.AckResponse) for each in answers)
    assert isinstance(missing, grpc.aio.AioRpcError) and missing.code() is Code.NOT_FOUND
    found = {
        (each, name): (await broker.server.broker.topic(TopicName.parse(each), create=False))
        .subscription(name)
        .position
        for each in topics
        for name in ("s", "t")
    }
    assert list(found.values()) == [5, 0, 0, 7]
