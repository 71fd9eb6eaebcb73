"""Tables: the newest value of each key, from history and the tail, through breaks and restarts."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from sulina import Change, Client, Closed, NotFound, Overloaded, Refused, Table
from sulina.metadata.keys.schemas import Validation
from tests.broker.actions import PATIENCE, eventually, publish
from tests.broker.cluster import Cluster
from tests.broker.proxy import Proxy

TOPIC = "/default/prices"


@dataclass(frozen=True)
class Price:
    bid: float
    ask: float = 0.0


async def set_all(client: Client, topic: str = TOPIC, **values: bytes | None) -> None:
    """Publish one record for each key; None deletes it."""
    async with client.producer(topic) as producer:
        await producer.send_many(list(values.values()), keys=list(values))


async def shows(table: Table[bytes], **values: bytes) -> None:
    """Wait until the table has these values and no others."""

    async def same() -> bool:
        return dict(table) == values

    await eventually(same)


async def test_a_table_has_the_newest_values_of_history_and_follows_the_tail(
    client: Client,
) -> None:
    await set_all(client, EURUSD=b"1.05", GBPUSD=b"1.20", USDJPY=b"150")
    await publish(client, TOPIC, [b"no key"])
    await set_all(client, EURUSD=b"1.06", GBPUSD=None, EMPTY=b"")
    async with client.table(TOPIC) as prices:
        assert prices["EURUSD"] == prices[b"EURUSD"] == b"1.06"
        assert sorted(prices) == ["EMPTY", "EURUSD", "USDJPY"]
        assert len(prices) == 3 and "GBPUSD" not in prices and prices["EMPTY"] == b""
        assert prices.get("GBPUSD") is None
        assert prices.size_bytes == len(b"EURUSD1.06USDJPY150EMPTY")
        updates = prices.updates()
        await set_all(client, EURUSD=None, USDJPY=b"151")
        seen = [await asyncio.wait_for(anext(updates), PATIENCE) for _ in range(2)]
        assert seen == [Change("EURUSD", None, 7), Change("USDJPY", b"151", 8)]
        assert dict(prices) == {"EMPTY": b"", "USDJPY": b"151"}
    with pytest.raises(StopAsyncIteration):
        await anext(updates)
    with pytest.raises(Closed):
        prices["USDJPY"]


async def test_a_slow_reader_of_changes_gets_the_newest_one_of_each_key(client: Client) -> None:
    async with client.table(TOPIC) as prices:
        updates = prices.updates()
        for bid in range(100):
            await set_all(client, EURUSD=b"%d" % bid, GBPUSD=b"1")
        await shows(prices, EURUSD=b"99", GBPUSD=b"1")
        keys = [(await anext(updates)).key for _ in range(2)]
        assert sorted(keys) == ["EURUSD", "GBPUSD"]


async def test_a_table_covers_all_partitions_and_decodes_values(client: Client) -> None:
    await client.admin.topics.create(TOPIC, partitions=3)
    async with client.producer(TOPIC, schema=Price) as producer:
        for number in range(20):
            await producer.send(Price(number), key=f"pair-{number % 10}")
        await producer.send_many([None, Price(7, 8)], keys=["pair-3", "pair-4"])
    async with client.table(TOPIC, schema=Price) as prices:
        assert prices["pair-0"] == Price(10) and prices["pair-4"] == Price(7, 8)
        assert len(prices) == 9 and "pair-3" not in prices
    async with client.consumer(TOPIC, "all", schema=Price) as consumer:
        async with client.producer(TOPIC, schema=Price) as producer:
            await producer.send(None, key="pair-4")
        assert (await consumer.receive(PATIENCE)).is_tombstone


async def test_tombstones_pass_where_payloads_are_checked_against_a_schema(client: Client) -> None:
    async with client.producer(TOPIC, schema=Price) as producer:
        await client.admin.schemas.bind(TOPIC, validation=Validation.ENFORCE, payload=True)
        await producer.send(Price(1), key="a")
        await (await producer.send(None, key="a"))
        with pytest.raises(Refused):
            await (await producer.producer.send(b"", key="a"))


async def test_lost_connections_and_restarts_lose_nothing_and_never_go_back(
    cluster: Cluster, client: Client, remote: Client, proxy: Proxy
) -> None:
    await set_all(client, a=b"0", b=b"0")
    async with remote.table(TOPIC) as table:
        updates = table.updates()
        proxy.cut()
        await set_all(client, a=b"1")
        await shows(table, a=b"1", b=b"0")
        await cluster.restart()
        await set_all(client, b=None)
        await shows(table, a=b"1")
        await set_all(client, a=b"2")
        await shows(table, a=b"2")
        offsets = [(await anext(updates)).offset for _ in range(2)]
        assert offsets == sorted(offsets)


async def test_a_table_that_does_not_wait_says_when_it_is_ready(client: Client) -> None:
    await set_all(client, a=b"1")
    async with client.table(TOPIC, wait=False) as table:
        before = table.is_ready
        await asyncio.wait_for(table.ready(), PATIENCE)
        assert (before, table.is_ready) == (False, True)
        assert table["a"] == b"1"


async def test_a_table_larger_than_its_limit_stops_with_the_reason(client: Client) -> None:
    await set_all(client, a=b"x" * 1000)
    with pytest.raises(Overloaded, match="max_bytes"):
        async with client.table(TOPIC, max_bytes=500):
            pass
    async with client.table(TOPIC, max_bytes=1500) as table:
        updates = table.updates()
        await set_all(client, b=b"y" * 1000)
        assert (await anext(updates)).key == "b"
        with pytest.raises(Overloaded, match="max_bytes"):
            await asyncio.wait_for(anext(updates), PATIENCE)
        with pytest.raises(Overloaded):
            table["a"]


async def test_a_table_ends_with_its_topic(client: Client) -> None:
    with pytest.raises(NotFound):
        async with client.table("/default/missing", create=False):
            pass
    async with client.table(TOPIC) as table:
        updates = table.updates()
        await client.admin.topics.delete(TOPIC)
        with pytest.raises(NotFound):
            await asyncio.wait_for(anext(updates), PATIENCE)


async def test_a_record_without_payload_and_key_is_refused(client: Client) -> None:
    async with client.producer(TOPIC) as producer:
        with pytest.raises(Refused, match="key"):
            await producer.send(None)
        with pytest.raises(Refused, match="key"):
            await producer.send_many([b"x", None])
