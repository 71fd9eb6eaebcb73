"""Messages of a topic's producers that arrive together share a frame, and nothing else."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

import sulina
from broker_containers.doors.danube.messages import DanubeRecord
from broker_containers.doors.danube.producer import DanubeProducer
from broker_containers.doors.danube.producers import Producers
from broker_containers.doors.danube.settings import DanubeSettings
from broker_containers.topics.single_publish import SingleOutcome
from broker_containers.topics.topic import Topic
from sulina.errors import Refused, SulinaError, TooLarge
from sulina.model import Delivery, Start
from sulina.names import TopicName
from sulina.wire.header import check_frame
from tests.danube.brokers import OneBroker
from tests.danube.calls import Calls
from tests.wire.records import NOW, lie, several_sample


def record_of(payload: bytes) -> DanubeRecord:
    return DanubeRecord(payload, None, None, NOW, (0, 0), len(payload))


@pytest_asyncio.fixture(loop_scope="session")
async def producers(broker: OneBroker) -> Producers:
    """Producers as the door has them."""
    services = broker.server.services
    return Producers(services.broker, DanubeSettings(), services.schemas)


async def attach(
    producers: Producers, topic: str, *names: str, principal: str = ""
) -> list[DanubeProducer]:
    name = TopicName.parse(topic)
    for each in names:
        await producers.create(
            name, each, Delivery.RELIABLE, "", exclusive=False, principal=principal
        )
    return [await producers.at(name, each, principal) for each in names]


async def send_together(senders: list[DanubeProducer], *payloads: bytes) -> list[object]:
    """Each sends its message in the same turn of the event loop; the outcomes."""
    sends = [
        sender.send(record_of(payload)) for sender, payload in zip(senders, payloads, strict=True)
    ]
    return await asyncio.gather(*sends, return_exceptions=True)


async def test_messages_of_several_producers_share_a_frame_and_keep_their_names(
    broker: OneBroker, producers: Producers, topic: str
) -> None:
    names = ["one", "two", "three"]
    senders = await attach(producers, topic, *names)
    opened = senders[0].topic
    async with Calls(broker.url) as calls:
        stream = calls.stream(await calls.subscribe(topic))
        await send_together([*senders, senders[0]], b"a", b"b", b"c", b"d")
        assert (opened.counters.frames_in, opened.counters.records_in) == (1, 4)
        stock = [await anext(aiter(stream)) for _ in range(4)]
        assert [each.producer_name for each in stock] == [*names, "one"]
        assert [each.payload for each in stock] == [b"a", b"b", b"c", b"d"]
        numbers = [each.msg_id.producer_id for each in stock]
        assert numbers[0] == numbers[3] and len(set(numbers)) == 3
    async with (
        sulina.connect(broker.native_url) as native,
        native.consumer(topic, "native", start=Start.earliest()) as consumer,
    ):
        messages = [await consumer.receive(30) for _ in range(4)]
        assert [each.producer for each in messages] == [*names, "one"]
        assert messages[0].batch.producer == ""
        peeked = await native.admin.messages.peek(topic, start=Start.earliest(), limit=4)
        assert [each.producer for each in peeked.messages] == [*names, "one"]


async def test_messages_of_one_producer_are_a_frame_of_that_producer(
    producers: Producers, topic: str
) -> None:
    one, two = await attach(producers, topic, "one", "two")
    await send_together([one, one], b"a", b"b")
    await send_together([two], b"c")
    dedup = one.topic.log.dedup
    assert one.producer is not None and two.producer is not None
    assert dedup.last_sequence(one.producer.id) > 0
    assert dedup.last_sequence(two.producer.id) > 0
    assert one.topic.counters.frames_in == 2


async def test_publishers_of_different_quotas_do_not_take_their_frames_for_repeats(
    producers: Producers, topic: str
) -> None:
    ours = await attach(producers, topic, "a", "b", principal="us")
    theirs = await attach(producers, topic, "c", "d", principal="them")
    for _ in range(3):
        await send_together(ours, b"1", b"2")
        await send_together(theirs, b"3", b"4")
    counters = ours[0].topic.counters
    assert (counters.frames_in, counters.records_in, counters.repeats) == (6, 12, 0)


async def test_a_message_at_fault_fails_alone(producers: Producers, topic: str) -> None:
    senders = await attach(producers, topic, "one", "two", "three")
    opened = senders[0].topic
    sends = asyncio.ensure_future(send_together(senders, b"ok", b"too large", b"ok"))
    await asyncio.sleep(0)  # they wait for their frame; now the limit changes
    opened.policy = replace(opened.policy, max_message_size=4)
    first, second, third = await sends
    assert first is third is None
    assert isinstance(second, TooLarge)


async def test_who_is_replaced_takes_its_messages_along_and_no_others(
    producers: Producers, topic: str
) -> None:
    one, two = await attach(producers, topic, "one", "two")
    sends = asyncio.ensure_future(send_together([one, two], b"a", b"b"))
    await asyncio.sleep(0)
    await one.topic.attach("one", SingleOutcome(), exclusive=False)
    first, second = await sends
    assert isinstance(first, Refused) and "took over" in str(first)
    assert second is None
    assert one.idle and two.idle and one.topic.counters.records_in == 1


async def test_a_producers_messages_without_keys_go_to_one_key_shared_consumer(
    broker: OneBroker, producers: Producers, topic: str
) -> None:
    names = [f"p{number}" for number in range(16)]
    senders = await attach(producers, topic, *names)
    async with (
        sulina.connect(broker.native_url) as native,
        native.consumer(topic, "s", type="key_shared") as left,
        native.consumer(topic, "s", type="key_shared") as right,
    ):
        for _ in range(2):
            assert await send_together(senders, *[b"x"] * 16) == [None] * 16
        assert senders[0].topic.counters.frames_in == 2
        owner: dict[str, object] = {}
        wanted = 32
        while wanted:
            for consumer in (left, right):
                for message in await take_batch(consumer):
                    assert owner.setdefault(message.producer, consumer) is consumer
                    wanted -= 1
    assert {id(each) for each in owner.values()} == {id(left), id(right)}


async def take_batch(consumer: sulina.Consumer) -> list[sulina.Message]:
    """What it has received; nothing if it has not received anything for a while."""
    try:
        return list(await consumer.receive_batch(0.05))
    except TimeoutError:
        return []


async def test_producers_that_left_leave_nothing_behind(producers: Producers, topic: str) -> None:
    one, two = await attach(producers, topic, "one", "two")
    await send_together([one, two], b"a", b"b")
    one.detach()
    assert len(producers._publishers) == 1
    two.detach()
    assert not producers._publishers
    (again,) = await attach(producers, topic, "one")
    assert await send_together([again], b"c") == [None]


async def refusal(topic: Topic, name: str) -> SulinaError:
    """Why a producer may not publish a frame of several producers."""
    sink = SingleOutcome()
    producer = await topic.attach(name, sink, exclusive=False)
    frame = memoryview(bytearray(lie(several_sample().encode(), producer_id=producer.id)))
    topic.publish(producer, 0, frame, check_frame(frame))
    with pytest.raises(SulinaError) as refused:
        await sink.outcome
    return refused.value


async def test_nobody_publishes_under_the_names_of_others(producers: Producers, topic: str) -> None:
    (one,) = await attach(producers, topic, "one")
    assert "not sent by producer" in str(await refusal(one.topic, "intruder"))
