"""Records that fail too often: Block, Drop and DeadLetter, set by consumers or administrators."""

from __future__ import annotations

from dataclasses import replace

import pytest

from sulina import Client, Consumer, FailurePolicy, NotFound, Poison, Refused
from tests.broker.actions import (
    ack_all,
    bodies,
    eventually,
    look,
    numbered,
    publish,
    read_messages,
    subscribe,
    take,
)
from tests.broker.cluster import Cluster
from tests.broker.memory_cluster import GatedDisk, MemoryCluster

TOPIC = "/default/poison"
DEAD = "/default/poison-dead"
BLOCK = FailurePolicy(
    max_redelivery_count=2, base_redelivery_delay_ms=1, max_redelivery_delay_ms=20
)
DROP = replace(BLOCK, poison=Poison.DROP)
DEAD_LETTER = replace(BLOCK, poison=Poison.DEAD_LETTER, dead_letter_topic=DEAD)


async def fail(consumer: Consumer, payload: bytes, times: int, reason: str = "") -> None:
    """Nack ``payload`` this many times when it arrives; acknowledge everything else."""
    while times:
        message = await consumer.receive(10)
        if message.payload == payload:
            await consumer.nack(message, reason=reason)
            times -= 1
        else:
            await consumer.ack(message)
    await consumer.flush_acks()


async def settled(client: Client) -> None:
    async def nothing_left() -> bool:
        return bool((await look(client, TOPIC, "s"))["backlog"] == 0)

    await eventually(nothing_left)


# ---- block ----


async def test_block_keeps_redelivering_a_record_that_fails_and_holds_back_what_follows(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=BLOCK) as consumer:
        await publish(client, TOPIC, [b"poison"])
        await fail(consumer, b"poison", 3)  # the first delivery and two more

        async def blocked() -> bool:
            return bool((await look(client, TOPIC, "s"))["counters"]["nacked"] == 3)

        await eventually(blocked)
        await publish(client, TOPIC, numbered(3))
        for attempt in (4, 5, 6):
            (message,) = await take(consumer, 1)
            assert (message.payload, message.attempt) == (b"poison", attempt)
            await consumer.nack(message)
        (message,) = await take(consumer, 1)
        await ack_all(consumer, [message])
        assert bodies(await take(consumer, 3)) == numbered(3), "handled at last: the rest comes"


# ---- drop ----


async def test_drop_lets_go_of_a_record_that_failed_too_often(client: Client) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=DROP) as consumer:
        await publish(client, TOPIC, [b"0", b"poison", b"1"])
        await fail(consumer, b"poison", 3)
        await settled(client)
        counters = (await look(client, TOPIC, "s"))["counters"]
        assert (counters["dropped"], counters["nacked"]) == (1, 3)
        await publish(client, TOPIC, [b"next"])
        assert bodies(await take(consumer, 1)) == [b"next"]


async def test_a_dropped_record_stays_dropped_after_a_restart(
    cluster: Cluster, client: Client
) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=DROP) as consumer:
        await publish(client, TOPIC, [b"poison"])
        await fail(consumer, b"poison", 3)
        await settled(client)
    await cluster.restart()
    async with cluster.client() as later, later.consumer(TOPIC, "s") as consumer:
        await publish(later, TOPIC, [b"next"])
        assert bodies(await take(consumer, 1)) == [b"next"]


# ---- dead letters ----


async def test_a_dead_letter_is_the_same_record_with_where_it_came_from(client: Client) -> None:
    async with client.consumer(TOPIC, "s", failure_policy=DEAD_LETTER) as consumer:
        async with client.producer(TOPIC, name="shop") as producer:
            await (await producer.send(b"fine"))
            await producer.send(b"poison", key="k", attributes={"colour": "green"})
        await fail(consumer, b"poison", 3, reason="no such article")
        await settled(client)
    (letter,) = await read_messages(client, DEAD)
    assert (letter.payload, letter.key) == (b"poison", b"k")
    attributes = dict(letter.attributes)
    assert attributes.pop("x-original-producer-id").isdigit()
    assert attributes == {
        "colour": "green",
        "x-original-topic": TOPIC,
        "x-original-subscription": "s",
        "x-original-topic-offset": "1",
        "x-original-broker-addr": "broker-1",
        "x-poison-policy": "dead_letter",
        "x-delivery-attempt": "3",
        "x-failure-reason": "no such article",
    }
    (original,) = [m for m in await read_messages(client, TOPIC) if m.payload == b"poison"]
    assert letter.publish_time_us == original.publish_time_us


async def test_several_records_of_one_batch_become_dead_letters_of_their_own(
    client: Client,
) -> None:
    policy = replace(DEAD_LETTER, max_redelivery_count=0)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, numbered(6), batch_records=6, compression="lz4")
        messages = await take(consumer, 6)
        for index in (1, 4):
            await consumer.nack(messages[index])
        await ack_all(consumer, [messages[index] for index in (0, 2, 3, 5)])
        await settled(client)
    letters = await read_messages(client, DEAD)
    assert sorted(bodies(letters)) == [b"1", b"4"]
    assert sorted(m.attributes["x-original-topic-offset"] for m in letters) == ["1", "4"]


async def test_a_time_out_is_the_reason_of_a_dead_letter_nobody_gave_one_for(
    client: Client,
) -> None:
    policy = replace(DEAD_LETTER, ack_timeout_ms=30, max_redelivery_count=0)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, [b"poison"])
        await take(consumer, 1)
        await settled(client)
    (letter,) = await read_messages(client, DEAD)
    assert letter.attributes["x-failure-reason"] == "not acknowledged in time"


async def test_dead_letters_of_a_partition_name_the_partition(client: Client) -> None:
    await client.admin("topic.create", {"topic": TOPIC, "partitions": 2})
    await client.admin("topic.create", {"topic": DEAD})
    policy = replace(DEAD_LETTER, max_redelivery_count=0)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, numbered(4), keys=["a", "b", "c", "d"])
        messages = await take(consumer, 4)
        for message in messages:
            await consumer.nack(message)

        async def all_dead() -> bool:
            return len(await read_messages(client, DEAD)) == 4

        await eventually(all_dead)
    letters = await read_messages(client, DEAD)
    origins = {
        m.payload: (
            m.attributes["x-original-topic"],
            int(m.attributes["x-original-topic-offset"]),
        )
        for m in letters
    }
    assert origins == {m.payload: (m.topic, m.offset) for m in messages}


async def test_a_record_is_not_let_go_before_its_dead_letter_is_durable() -> None:
    disk = GatedDisk()
    policy = replace(DEAD_LETTER, max_redelivery_count=0)
    async with MemoryCluster(disk) as cluster, cluster.client() as client:
        await publish(client, DEAD, [b"opens its ledger"])
        async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
            await publish(client, TOPIC, [b"poison"])
            (message,) = await take(consumer, 1)
            disk.close_gate()
            await consumer.nack(message)

            async def it_dies() -> bool:
                return bool((await look(client, TOPIC, "s"))["counters"]["nacked"] == 1)

            await eventually(it_dies)
            assert (await look(client, TOPIC, "s"))["backlog"] == 1
            disk.open_gate()
            await settled(client)
        assert [m.payload for m in await read_messages(client, DEAD)][1:] == [b"poison"]


async def test_a_record_whose_dead_letter_cant_be_published_is_kept(client: Client) -> None:
    await client.admin("topic.create", {"topic": DEAD, "partitions": 2})
    policy = replace(DEAD_LETTER, max_redelivery_count=0)
    async with client.consumer(TOPIC, "s", failure_policy=policy) as consumer:
        await publish(client, TOPIC, [b"poison"])
        await fail(consumer, b"poison", 2)  # no dead letter: the topic is partitioned
        assert (await look(client, TOPIC, "s"))["backlog"] == 1
        await client.admin("topic.delete", {"topic": DEAD})
        await fail(consumer, b"poison", 1)
        await settled(client)
    assert bodies(await read_messages(client, DEAD)) == [b"poison"]


# ---- setting it ----


async def test_a_policy_belongs_to_the_subscription_and_survives_a_restart(
    cluster: Cluster, client: Client
) -> None:
    await subscribe(client, TOPIC, "s", failure_policy=DEAD_LETTER)
    before = (await look(client, TOPIC, "s"))["failure_policy"]
    assert before == {
        "max_redelivery_count": 2,
        "ack_timeout_ms": 30_000,
        "base_redelivery_delay_ms": 1,
        "max_redelivery_delay_ms": 20,
        "backoff": "exponential",
        "poison": "dead_letter",
        "dead_letter_expired": False,
        "dead_letter_topic": DEAD,
    }
    await cluster.restart()
    async with cluster.client() as later:
        assert (await look(later, TOPIC, "s"))["failure_policy"] == before


async def test_an_administrator_changes_the_policy_of_a_subscription_in_use(
    client: Client,
) -> None:
    async with client.consumer(TOPIC, "s") as consumer:
        changed = await client.admin(
            "subscription.policy",
            {
                "topic": TOPIC,
                "subscription": "s",
                "max_redelivery_count": 0,
                "base_redelivery_delay_ms": 1,
                "poison": "drop",
            },
        )
        assert (changed["poison"], changed["ack_timeout_ms"]) == ("drop", 30_000)
        await publish(client, TOPIC, [b"poison"])
        await fail(consumer, b"poison", 1)
        await settled(client)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"poison": "explode"}, "poison is one of block, halt, drop, dead_letter, not 'explode'"),
        ({"poison": "dead_letter"}, "needs a topic: set dead_letter_topic"),
        ({"base_redelivery_delay_ms": 90_000}, "larger than max_redelivery_delay_ms"),
        ({"max_redelivery_count": "many"}, "max_redelivery_count must be a whole number"),
        ({"ack_timeout_ms": -1}, "ack_timeout_ms must be a whole number"),
        (
            {"poison": "dead_letter", "dead_letter_topic": "no topic"},
            "'no topic' is not a topic name",
        ),
    ],
)
async def test_a_policy_that_makes_no_sense_is_refused(
    client: Client, wrong: dict[str, object], why: str
) -> None:
    await subscribe(client, TOPIC, "s")
    with pytest.raises(Refused, match=why):
        await client.admin("subscription.policy", {"topic": TOPIC, "subscription": "s", **wrong})
    assert (await look(client, TOPIC, "s"))["failure_policy"]["poison"] == "block"


async def test_a_consumer_cant_ask_for_a_dead_letter_topic_that_is_no_topic(
    client: Client,
) -> None:
    policy = replace(DEAD_LETTER, dead_letter_topic="nowhere")
    with pytest.raises(Refused, match="'nowhere' is not a topic name"):
        await client.consumer(TOPIC, "s", failure_policy=policy).open()


async def test_the_policy_of_a_subscription_that_is_not_there_cant_be_set(
    client: Client,
) -> None:
    await publish(client, TOPIC, [b"x"])
    with pytest.raises(NotFound, match="has no subscription 'nobody'"):
        await client.admin("subscription.policy", {"topic": TOPIC, "subscription": "nobody"})
