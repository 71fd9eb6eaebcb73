"""A consumer: receiving, credit, acknowledging, position."""

from __future__ import annotations

import asyncio

import pytest

import sulina
from sulina.errors import Closed, Refused, UnknownOutcome
from sulina.model import FailurePolicy, Start, SubscriptionType
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.commands import Command
from sulina.wire.compression import Compression
from tests.client.bench import Bench, frame, until

TOPIC = "/default/t"


def numbers(first: int, count: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def acked(bench: Bench) -> set[int]:
    """All offsets that the broker was told of singly or in ranges."""
    offsets: set[int] = set()
    for ack in bench.broker.bodies(Command.ACK):
        for part in ack.selections:
            if ack.cumulative:
                offsets |= set(range(part.last + 1))
            elif part.mask:
                mask = selection.from_bytes(part.mask)
                offsets |= {part.first + index for index in selection.indices(mask)}
            else:
                offsets |= set(range(part.first, part.last + 1))
    return offsets


def credit(bench: Bench) -> tuple[int, int]:
    flows = bench.broker.bodies(Command.FLOW)
    return sum(flow.records for flow in flows), sum(flow.bytes for flow in flows)


# ---- receiving ----


async def test_messages_have_all_that_was_published(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        data = frame(7, [b'{"a": 1}', b"b"], keys=[b"k", None], attributes=[{"x": "y"}, None])
        bench.broker.peer.deliver(data, attempt=3)
        first, second = await consumer.receive(), await consumer.receive()
        assert first.payload == b'{"a": 1}'
        assert first.json() == {"a": 1}
        assert second.text() == "b"
        assert (first.key, second.key) == (b"k", None)
        assert (first.attributes, second.attributes) == ({"x": "y"}, {})
        assert (first.offset, second.offset) == (7, 8)
        assert (first.sequence, second.sequence) == (7, 8)
        assert first.publish_time_us == 1_000_000
        assert first.publish_time.isoformat() == "1970-01-01T00:00:01+00:00"
        assert first.producer == "someone"
        assert (first.topic, first.partition, first.attempt) == (TOPIC, None, 3)
        assert (first.schema_id, first.schema_version) == (0, 0)
        assert "/default/t@7" in repr(first)


async def test_messages_come_in_the_order_of_the_frames(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        for base in (0, 10, 20):
            bench.broker.peer.deliver(frame(base, numbers(base, 10)))
        got = []
        async for message in consumer:
            got.append(message.payload)
            if len(got) == 30:
                break
        assert got == numbers(0, 30)


async def test_batches_are_columns(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(5, numbers(5, 4)))
        async for batch in consumer.batches():
            assert len(batch) == 4
            assert batch.payloads == numbers(5, 4)
            assert list(batch.offsets) == [5, 6, 7, 8]
            assert batch.keys is None
            assert batch.attributes is None
            assert batch.times == [1_000_000] * 4
            assert [message.payload for message in batch] == batch.payloads
            break


async def test_only_the_selected_records_are_handed_out(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        mask = selection.to_bytes(0b1010)
        bench.broker.peer.deliver(
            frame(100, numbers(0, 4), keys=[b"a", b"b", b"c", b"d"]), selection=mask
        )
        batch = await consumer.receive_batch()
        assert batch.payloads == [b"1", b"3"]
        assert batch.keys == [b"b", b"d"]
        assert list(batch.offsets) == [101, 103]
        await consumer.ack(batch)
        await consumer.flush_acks()
        assert acked(bench) == {101, 103}


async def test_the_rest_of_a_batch_follows_on_single_messages(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(10, numbers(0, 5)))
        await consumer.receive()
        await consumer.receive()
        batch = await consumer.receive_batch()
        assert list(batch.offsets) == [12, 13, 14]
        assert batch.payloads == numbers(2, 3)


async def test_receiving_may_be_bounded_in_time(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        with pytest.raises(TimeoutError):
            await bench.eventually(consumer.receive(timeout=2))
        with pytest.raises(TimeoutError):
            await bench.eventually(consumer.receive_batch(timeout=2))
        bench.broker.peer.deliver(frame(0, [b"x"]))
        assert (await consumer.receive(timeout=2)).payload == b"x"


async def test_cancelling_a_receiver_loses_nothing(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        waiting = [asyncio.ensure_future(consumer.receive()) for _ in range(3)]
        await asyncio.sleep(0)
        bench.broker.peer.deliver(frame(0, numbers(0, 3)))
        waiting[1].cancel()
        got = {(await waiting[0]).payload, (await waiting[2]).payload}
        got.add((await consumer.receive()).payload)
        assert got == set(numbers(0, 3))


async def test_many_tasks_may_share_a_consumer(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:

        async def work() -> list[bytes]:
            return [(await consumer.receive()).payload for _ in range(10)]

        workers = [asyncio.ensure_future(work()) for _ in range(4)]
        for base in range(0, 40, 8):
            bench.broker.peer.deliver(frame(base, numbers(base, 8)))
            await asyncio.sleep(0)
        got = [payload for worker in workers for payload in await worker]
        assert sorted(got, key=int) == numbers(0, 40)


async def test_a_corrupt_frame_is_given_back_and_counted(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        damaged = bytearray(frame(20, numbers(0, 3)))
        damaged[-1] ^= 1
        bench.broker.peer.deliver(bytes(damaged))
        bench.broker.peer.deliver(b"no frame at all")
        bench.broker.peer.deliver(frame(23, [b"good"]))
        assert (await consumer.receive()).payload == b"good"
        assert consumer.corrupt_frames == 2
        await until(lambda: bool(bench.broker.bodies(Command.NACK)))
        (nack,) = bench.broker.bodies(Command.NACK)
        assert nack.reason == "corrupt frame"
        assert (nack.selections[0].first, nack.selections[0].last) == (20, 22)


async def test_compressed_frames_are_opened(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        for method in (Compression.LZ4, Compression.ZSTD):
            bench.broker.peer.deliver(frame(0, [bytes(1000)], compression=method))
            assert (await consumer.receive()).payload == bytes(1000)


# ---- credit ----


async def test_the_first_credit_is_the_size_of_the_queue(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s"):
        await until(lambda: credit(bench) == (50_000, 8 << 20))


async def test_shared_subscriptions_take_less_at_once(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s", type=SubscriptionType.KEY_SHARED):
        await until(lambda: credit(bench) == (1000, 8 << 20))


async def test_credit_comes_back_only_for_what_the_application_takes(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s", queue_records=100) as consumer:
        for base in range(0, 100, 10):
            bench.broker.peer.deliver(frame(base, numbers(base, 10)))
        for _ in range(50):
            await asyncio.sleep(0)
        assert credit(bench)[0] == 100
        for _ in range(41):
            await consumer.receive()
        await until(lambda: credit(bench)[0] == 150)


# ---- acknowledging ----


async def test_single_acknowledgements_are_collected(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 100)))
        for _ in range(100):
            await consumer.ack(await consumer.receive())
        assert not bench.broker.bodies(Command.ACK)
        await bench.clock.advance(0.02)
        (ack,) = bench.broker.bodies(Command.ACK)
        assert [(part.first, part.last) for part in ack.selections] == [(0, 99)]


async def test_many_acknowledgements_do_not_wait(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 1000)))
        for _ in range(1000):
            await consumer.ack(await consumer.receive())
        await until(lambda: acked(bench) == set(range(1000)))


async def test_a_batch_is_acknowledged_whole(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        for base in (0, 50):
            bench.broker.peer.deliver(frame(base, numbers(base, 50)))
            await consumer.ack(await consumer.receive_batch())
        await consumer.flush_acks()
        (ack,) = bench.broker.bodies(Command.ACK)
        assert [(part.first, part.last) for part in ack.selections] == [(0, 99)]


async def test_a_position_can_be_acknowledged_where_there_is_an_order(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s", type="failover") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 10)))
        messages = [await consumer.receive() for _ in range(5)]
        await consumer.ack_cumulative(messages[3])
        await consumer.flush_acks()
        (ack,) = bench.broker.bodies(Command.ACK)
        assert ack.cumulative
        assert ack.selections[0].last == 3


async def test_a_shared_subscription_has_no_position_to_acknowledge(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        bench.broker.peer.deliver(frame(0, [b"x"]))
        with pytest.raises(Refused, match="to other consumers"):
            await consumer.ack_cumulative(await consumer.receive())


async def test_flushing_waits_for_the_broker(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.silent.add(Command.ACK)
        bench.broker.peer.deliver(frame(0, [b"x"]))
        await consumer.ack(await consumer.receive())
        with pytest.raises(UnknownOutcome, match="may be delivered again"):
            await bench.eventually(consumer.flush_acks())
        bench.broker.silent.clear()
        bench.network.cut()
        await bench.eventually(consumer.flush_acks())


async def test_a_refused_acknowledgement_is_told_by_flush(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.answers[Command.ACK] = [Refused("not yours")]
        bench.broker.peer.deliver(frame(0, [b"x"]))
        await consumer.ack(await consumer.receive())
        with pytest.raises(Refused, match="not yours"):
            await consumer.flush_acks()
        await consumer.flush_acks()


async def test_an_application_much_faster_than_the_broker_waits(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.silent.add(Command.ACK)
        bench.broker.peer.deliver(frame(0, [b"x"] * 60_000))
        messages = [await consumer.receive() for _ in range(60_000)]

        async def acknowledge_all() -> None:
            for message in messages:
                await consumer.ack(message)

        working = asyncio.ensure_future(acknowledge_all())
        for _ in range(100):
            await asyncio.sleep(0)
        assert not working.done()
        assert len(bench.broker.bodies(Command.ACK)) == 16
        bench.broker.silent.clear()
        bench.network.cut()
        await bench.clock.advance(1)
        await working
        await consumer.flush_acks()
        assert acked(bench) == set(range(60_000))


async def test_a_message_that_failed_is_given_back(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 10)))
        message = await consumer.receive()
        await consumer.nack(message, delay_ms=500, reason="no database")
        await consumer.nack(await consumer.receive_batch())
        await until(lambda: len(bench.broker.bodies(Command.NACK)) == 2)
        one, rest = bench.broker.bodies(Command.NACK)
        assert (one.selections[0].first, one.selections[0].last) == (0, 0)
        assert (one.delay_ms, one.reason) == (500, "no database")
        assert selection.indices(selection.from_bytes(rest.selections[0].mask)) == [*range(1, 10)]


async def test_messages_of_another_consumer_are_refused(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s") as one, client.consumer(TOPIC, "s2") as other:
        bench.broker.peer.deliver(frame(0, [b"x"]))
        message = await other.receive()
        with pytest.raises(Refused, match="was received by another consumer"):
            await one.ack(message)


# ---- position and end ----


async def test_after_a_seek_nothing_old_comes(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 4)))
        bench.broker.peer.deliver(frame(4, numbers(4, 4)))
        old = await consumer.receive()
        bench.broker.silent.add(Command.SEEK)
        seeking = asyncio.ensure_future(consumer.seek(Start.offset(2)))
        await until(lambda: bool(bench.broker.bodies(Command.SEEK)))
        bench.broker.peer.deliver(frame(8, numbers(8, 4)))  # was on its way
        (asked,) = (each for each in bench.broker.seen if each.command is Command.SEEK)
        bench.broker.peer.stream.send(Command.DONE, asked.request, pb.Done())
        bench.broker.peer.deliver(frame(2, [b"new"]))
        await seeking
        assert asked.body == pb.Seek(consumer=1, start=pb.Start(offset=2))
        assert (await consumer.receive()).payload == b"new"
        await consumer.ack(old)  # of the former position: must not count for the new one
        await consumer.flush_acks()
        assert acked(bench) == set()


async def test_a_seek_gives_back_the_credit_of_what_it_drops(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.consumer(TOPIC, "s", queue_records=10) as consumer:
        bench.broker.peer.deliver(frame(0, numbers(0, 8)))
        await until(lambda: consumer._receiver.inbox.first() is not None)
        await consumer.seek(Start.earliest())
        await until(lambda: credit(bench)[0] == 18)


async def test_what_the_application_asks_for_is_what_the_broker_hears(
    bench: Bench, client: sulina.Client
) -> None:
    policy = FailurePolicy(
        max_redelivery_count=2,
        ack_timeout_ms=100,
        poison=sulina.Poison.DEAD_LETTER,
        dead_letter_topic="/default/dead",
    )
    async with client.consumer(
        TOPIC,
        "billing",
        type="key_shared",
        start=Start.time(99),
        name="worker-1",
        key_filters=["eu-*"],
        failure_policy=policy,
    ) as consumer:
        assert (consumer.name, consumer.topic, consumer.subscription) == (
            "worker-1",
            TOPIC,
            "billing",
        )
    (asked,) = bench.broker.bodies(Command.SUBSCRIBE)
    assert asked.subscription == "billing"
    assert asked.type == pb.KEY_SHARED
    assert asked.consumer == "worker-1"
    assert asked.start.time_us == 99
    assert list(asked.key_filters) == ["eu-*"]
    assert asked.failure_policy.poison == pb.FailurePolicy.DEAD_LETTER
    assert asked.failure_policy.dead_letter_topic == "/default/dead"


async def test_standing_by_is_told(bench: Bench, client: sulina.Client) -> None:
    async with client.consumer(TOPIC, "s", type="failover") as consumer:
        assert consumer.active
        bench.broker.peer.send(Command.ACTIVE_CHANGED, pb.ActiveChanged(consumer=1, active=False))
        await until(lambda: not consumer.active)
        bench.broker.peer.send(Command.ACTIVE_CHANGED, pb.ActiveChanged(consumer=1, active=True))
        await until(lambda: consumer.active)


async def test_closing_sends_what_was_acknowledged_and_ends_iteration(
    bench: Bench, client: sulina.Client
) -> None:
    consumer = await client.consumer(TOPIC, "s").open()

    async def work() -> int:
        count = 0
        async for message in consumer:
            await consumer.ack(message)
            count += 1
        return count

    working = asyncio.ensure_future(work())
    bench.broker.peer.deliver(frame(0, numbers(0, 3)))
    for _ in range(10):
        await asyncio.sleep(0)
    await consumer.close()
    assert await working == 3
    assert acked(bench) == {0, 1, 2}
    assert len(bench.broker.bodies(Command.CLOSE_CONSUMER)) == 1
    await consumer.close()
    with pytest.raises(Closed):
        await consumer.receive()
    assert [batch async for batch in consumer.batches()] == []


async def test_a_consumer_must_be_opened_first(client: sulina.Client) -> None:
    with pytest.raises(Closed, match="async with"):
        await client.consumer(TOPIC, "s").receive()


async def test_unsubscribing_closes(bench: Bench, client: sulina.Client) -> None:
    consumer = await client.consumer(TOPIC, "s").open()
    await consumer.unsubscribe()
    assert len(bench.broker.bodies(Command.UNSUBSCRIBE)) == 1
    assert not bench.broker.bodies(Command.CLOSE_CONSUMER)
    with pytest.raises(Closed):
        await consumer.receive()


# ---- partitions ----


async def test_all_partitions_are_merged(bench: Bench, client: sulina.Client) -> None:
    bench.broker.partitions[TOPIC] = 3
    async with client.consumer(TOPIC, "s", queue_records=300, queue_bytes=3 << 20) as consumer:
        peer = bench.broker.peer
        assert {body.topic for body in peer.consumers.values()} == {
            f"{TOPIC}-part-{number}" for number in range(3)
        }
        await until(lambda: credit(bench) == (300, 3 << 20))
        for handle, body in peer.consumers.items():
            deliver = pb.Deliver(consumer=handle, attempt=1)
            peer.send(Command.DELIVER, deliver, frame(0, [body.topic.encode()]))
        got = [await consumer.receive() for _ in range(3)]
        assert {message.partition for message in got} == {0, 1, 2}
        assert all(message.topic.encode() == message.payload for message in got)
        for message in got:
            await consumer.ack(message)
        await consumer.flush_acks()
        assert {ack.consumer for ack in bench.broker.bodies(Command.ACK)} == {1, 2, 3}
