"""Redelivery after a nack and after the ack timeout, with its count."""

from __future__ import annotations

import asyncio

from sulina import Backoff, Client, FailurePolicy
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.broker.actions import ack_all, bodies, look, numbered, publish, take, take_all
from tests.broker.cluster import Cluster
from tests.broker.peer import Peer

TOPIC = "/default/again"
QUICK = FailurePolicy(
    max_redelivery_count=100, base_redelivery_delay_ms=1, max_redelivery_delay_ms=10
)


async def counters(client: Client) -> dict[str, int]:
    found = (await look(client, TOPIC, "s"))["counters"]
    assert isinstance(found, dict)
    return found


# ---- negative acknowledgements ----


async def test_a_nacked_record_comes_again_with_its_attempt_counted(client: Client) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=QUICK) as consumer:
        await publish(client, TOPIC, numbered(1))
        for attempt in range(1, 6):
            (message,) = await take(consumer, 1)
            assert message.attempt == attempt
            await consumer.nack(message)
        (message,) = await take(consumer, 1)
        await ack_all(consumer, [message])
        found = await counters(client)
        assert (found["nacked"], found["redelivered"], found["acknowledged"]) == (5, 5, 1)


async def test_only_the_nacked_record_of_a_batch_comes_again(client: Client) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=QUICK) as consumer:
        await publish(client, TOPIC, numbered(10), batch_records=10)
        messages = await take(consumer, 10)
        await consumer.nack(messages[3])
        await consumer.nack(messages[7])
        again = await take(consumer, 2)
        assert sorted(bodies(again)) == [b"3", b"7"]
        assert all(message.attempt == 2 for message in again)
        await ack_all(consumer, [*messages[:3], *messages[4:7], *messages[8:], *again])
        assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_a_nacked_batch_comes_again_as_a_whole(client: Client) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=QUICK) as consumer:
        await publish(client, TOPIC, numbered(10), batch_records=10)
        batch = await consumer.receive_batch(10)
        await consumer.nack(batch)
        again = await consumer.receive_batch(10)
        assert (again.payloads, again.attempt) == (numbered(10), 2)


async def test_a_nacked_record_goes_to_the_consumers_of_a_shared_subscription_in_turns(
    client: Client,
) -> None:
    group = [client.consumer(TOPIC, "s", type="shared", failure_policy=QUICK) for _ in range(2)]
    async with group[0], group[1]:
        await publish(client, TOPIC, numbered(1))
        owners = []
        for attempt in (1, 2, 3, 4):
            taken = await take_all(group, 1)
            owner = 0 if taken[0] else 1
            (message,) = taken[owner]
            assert message.attempt == attempt
            owners.append(owner)
            await group[owner].nack(message)
        assert set(owners[:2]) == set(owners[2:]) == {0, 1}


async def test_later_records_do_not_wait_for_one_that_comes_again(client: Client) -> None:
    policy = FailurePolicy(max_redelivery_delay_ms=3_600_000)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, numbered(3))
        messages = await take(consumer, 3)
        await consumer.nack(messages[0], delay_ms=3_600_000)
        await publish(client, TOPIC, numbered(3, first=3))
        later = await take(consumer, 3)
        assert bodies(later) == numbered(3, first=3)
        await ack_all(consumer, [*messages[1:], *later])
        assert (await look(client, TOPIC, "s"))["position"] == 0


async def test_the_longer_of_the_requested_and_the_policys_delay_is_waited(
    client: Client,
) -> None:
    policy = FailurePolicy(base_redelivery_delay_ms=100, max_redelivery_delay_ms=300)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, numbered(3))
        shorter, longer, capped = await take(consumer, 3)
        await consumer.nack(capped, delay_ms=3_600_000)
        await consumer.nack(longer, delay_ms=200)
        await consumer.nack(shorter, delay_ms=1)
        again = await take(consumer, 3)
        assert bodies(again) == numbered(3), "after 100, 200 and 300 ms"


def test_delays_double_with_each_attempt_unless_they_are_fixed() -> None:
    doubling = FailurePolicy(base_redelivery_delay_ms=100, max_redelivery_delay_ms=1000)
    fixed = FailurePolicy(base_redelivery_delay_ms=100, backoff=Backoff.FIXED)
    assert [doubling.delay_ms(n) for n in range(1, 7)] == [100, 200, 400, 800, 1000, 1000]
    assert [fixed.delay_ms(n) for n in range(1, 4)] == [100, 100, 100]
    assert doubling.delay_ms(1, requested_ms=250) == 250
    assert doubling.delay_ms(1, requested_ms=5000) == 1000


async def test_records_that_somebody_else_has_cant_be_nacked(
    cluster: Cluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s", type="shared") as consumer:
        await publish(client, TOPIC, numbered(2))
        await take(consumer, 2)
        async with Peer(cluster.port) as peer:
            body = pb.Subscribe(topic=TOPIC, subscription="s", type=pb.SHARED, consumer="other")
            handle = (await peer.ask(Command.SUBSCRIBE, body, pb.Subscribed)).consumer
            nack = pb.Nack(consumer=handle, selections=[pb.Selection(first=0, last=1)])
            await peer.ask(Command.NACK, nack, pb.Done)
        assert (await counters(client))["nacked"] == 0


# ---- the ack timeout ----


async def test_what_is_not_acknowledged_in_time_comes_again(client: Client) -> None:
    policy = FailurePolicy(ack_timeout_ms=400, max_redelivery_count=100)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, numbered(2))
        first, second = await take(consumer, 2)
        await ack_all(consumer, [first])
        (again,) = await take(consumer, 1)
        assert (again.payload, again.attempt) == (second.payload, 2)
        await ack_all(consumer, [again])
        assert (await look(client, TOPIC, "s"))["backlog"] == 0
        assert (await counters(client))["timed_out"] == 1


async def test_a_stuck_consumer_loses_its_records_to_one_that_works(client: Client) -> None:
    policy = FailurePolicy(ack_timeout_ms=60, max_redelivery_count=100)
    async with client.consumer(TOPIC, "s", type="shared", failure_policy=policy) as stuck:
        await publish(client, TOPIC, numbered(20))
        await take(stuck, 3)  # takes three, and hangs
        async with client.consumer(TOPIC, "s", type="shared") as busy:
            done: set[bytes] = set()
            while len(done) < 20:
                message = await busy.receive(10)
                await busy.ack(message)
                done.add(message.payload)
            await busy.flush_acks()
            assert (await look(client, TOPIC, "s"))["backlog"] == 0


async def test_a_slow_consumer_that_moves_on_keeps_what_waits_in_its_queue(
    client: Client,
) -> None:
    policy = FailurePolicy(ack_timeout_ms=600)
    async with client.consumer(TOPIC, "s", failure_policy=policy, queue_records=50) as consumer:
        await publish(client, TOPIC, numbered(10))
        for payload in numbered(10):
            message = await consumer.receive(10)
            assert (message.payload, message.attempt) == (payload, 1)
            await asyncio.sleep(0.08)  # all together longer than the timeout
            await ack_all(consumer, [message])
        assert (await counters(client))["timed_out"] == 0


async def test_without_a_timeout_a_consumer_may_take_as_long_as_it_likes(client: Client) -> None:
    policy = FailurePolicy(ack_timeout_ms=0)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, numbered(1))
        await take(consumer, 1)
        found = await look(client, TOPIC, "s")
        assert found["failure_policy"]["ack_timeout_ms"] == 0
        assert found["counters"]["timed_out"] == 0


# ---- attempts ----


async def test_attempts_are_not_counted_for_a_consumer_that_left(client: Client) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=QUICK) as consumer:
        await publish(client, TOPIC, numbered(1))
        (message,) = await take(consumer, 1)
        await consumer.nack(message)
        (message,) = await take(consumer, 1)
        assert message.attempt == 2
    for _ in range(3):
        async with client.consumer(TOPIC, "s") as consumer:
            (message,) = await take(consumer, 1)
            assert message.attempt == 2


async def test_records_that_come_again_are_read_from_the_journal_when_memory_forgot_them(
    client: Client,
) -> None:
    # More than a subscription keeps in memory of what is in flight.
    payloads = [b"%04d" % number + b"x" * 100_000 for number in range(80)]
    async with client.consumer(
        TOPIC, "s", failure_policy=QUICK, queue_bytes=64 << 20, queue_records=1000
    ) as consumer:
        await publish(client, TOPIC, payloads)
        messages = await take(consumer, 80)
        for message in messages:
            await consumer.nack(message)
        again = await take(consumer, 80)
        assert sorted(bodies(again)) == payloads
        assert all(message.attempt == 2 for message in again)
        await ack_all(consumer, again)
        assert (await look(client, TOPIC, "s"))["backlog"] == 0
