"""Redelivery after a nack and after the ack timeout, with its count."""

from __future__ import annotations

from sulina import Client, FailurePolicy
from tests.broker.actions import ack_all, bodies, look, numbered, publish, take

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


# ---- attempts ----


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
