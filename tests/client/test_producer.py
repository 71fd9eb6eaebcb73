"""A producer, from send to ticket, when all goes well."""

from __future__ import annotations

import asyncio

import pytest

import sulina
from sulina.client.routing import partition_of
from sulina.errors import Closed, Refused, TooLarge
from sulina.wire.commands import Command
from sulina.wire.decode import Frame
from tests.client.bench import Bench, until

TOPIC = "/default/t"


def payloads_of(bench: Bench, topic: str = TOPIC) -> list[list[bytes]]:
    """What was stored, frame by frame."""
    return [Frame(data).payloads for data in bench.broker.stored.get(topic, [])]


async def test_a_ticket_becomes_the_id_of_the_record(bench: Bench, client: sulina.Client) -> None:
    async with client.producer(TOPIC) as producer:
        first = await producer.send(b"one")
        second = await producer.send(b"two")
        assert await second == sulina.MessageId(TOPIC, 1)
        assert first.done()
        assert await first == sulina.MessageId(TOPIC, 0)


async def test_key_attributes_and_time_travel_with_the_record(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC, name="me", schema_id=7, schema_version=2) as producer:
        await producer.send(b"x", key="kä", attributes={"a": "b"}, publish_time_us=123)
    frame = Frame(bench.broker.stored[TOPIC][0])
    assert frame.keys == ["kä".encode()]
    assert frame.attributes == [{"a": "b"}]
    assert frame.times == [123]
    assert frame.producer_name == "me"
    assert (frame.header.schema_id, frame.header.schema_version) == (7, 2)


async def test_records_of_one_turn_share_a_frame_that_goes_at_once(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        for _ in range(10):
            await producer.send(b"x")
        await until(lambda: len(payloads_of(bench)) == 1)  # no time has passed
    assert payloads_of(bench) == [[b"x"] * 10]


async def test_with_some_frames_on_their_way_records_wait_for_company(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, linger_ms=5) as producer:
        alone = [[b"1"], [b"2"], [b"3"]]
        for payload in (b"1", b"2", b"3"):
            await producer.send(payload)
            await until(lambda: payloads_of(bench)[-1:] == [[payload]])  # noqa: B023
        await producer.send(b"b")
        await bench.clock.advance(0.004)
        await producer.send(b"c")
        assert payloads_of(bench) == alone
        await bench.clock.advance(0.002)
        assert payloads_of(bench) == [*alone, [b"b", b"c"]]
        bench.network.cut()
        bench.broker.publishing = lambda number: None
        await bench.eventually(producer.flush())


async def test_what_waits_goes_when_the_way_is_free(bench: Bench, client: sulina.Client) -> None:
    async with client.producer(TOPIC, linger_ms=1e6) as producer:
        await producer.send(b"a")
        await until(lambda: payloads_of(bench) == [[b"a"]])
        await producer.send(b"b")
        await until(lambda: payloads_of(bench) == [[b"a"], [b"b"]])


async def test_a_full_frame_does_not_wait(bench: Bench, client: sulina.Client) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, batch_bytes=1000, linger_ms=1e6) as producer:
        for _ in range(25):
            await producer.send(bytes(92))
        await until(lambda: len(payloads_of(bench)) == 2)
        assert [len(frame) for frame in payloads_of(bench)] == [10, 10]
        bench.network.cut()
        bench.broker.publishing = lambda number: None
        await bench.eventually(producer.flush())
    assert [len(frame) for frame in payloads_of(bench)] == [10, 10, 5]


async def test_a_frame_has_no_more_records_than_asked_for(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC, batch_records=4) as producer:
        await producer.send_many([b"x"] * 6)
        await producer.send_many([b"y"] * 6)
    assert [len(frame) for frame in payloads_of(bench)] == [4, 4, 4]


@pytest.mark.parametrize("one_by_one", [True, False])
async def test_frames_with_many_records_are_half_as_large(
    bench: Bench, client: sulina.Client, one_by_one: bool
) -> None:
    async def lengths(size: int) -> list[int]:
        bench.broker.stored.pop(TOPIC, None)
        payloads = [bytes(size)] * 2500
        async with client.producer(TOPIC, batch_bytes=216_000, linger_ms=1e6) as producer:
            if one_by_one:
                bench.broker.publishing = lambda number: "silence"
                for payload in payloads:
                    await producer.send(payload)
                bench.network.cut()
                bench.broker.publishing = lambda number: None
                await bench.eventually(producer.flush())
            else:
                await producer.send_many(payloads)
        return [len(frame) for frame in payloads_of(bench)]

    # Each record costs 8 bytes more than its payload.
    assert (await lengths(82))[:2] == [1200, 1200]
    assert (await lengths(208))[:2] == [1000, 1000]
    assert (await lengths(424))[:2] == [500, 500]


async def test_many_are_cut_into_frames_in_order(bench: Bench, client: sulina.Client) -> None:
    sent = [b"%d" % number for number in range(1000)]
    async with client.producer(TOPIC, batch_bytes=1000) as producer:
        await producer.send(b"before")
        ticket = await producer.send_many(sent)
        await producer.send(b"after")
        assert await ticket == sulina.MessageId(TOPIC, 1000)
    frames = payloads_of(bench)
    assert len(frames) > 5
    assert [payload for frame in frames for payload in frame] == [b"before", *sent, b"after"]


async def test_a_record_larger_than_a_frame_gets_its_own(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC, batch_bytes=100) as producer:
        await producer.send_many([b"a", bytes(500), b"b"])
        await producer.send(bytes(300))
        await producer.send(b"c")
    lengths = [[len(payload) for payload in frame] for frame in payloads_of(bench)]
    assert lengths == [[1], [500], [1], [300], [1]]


async def test_sequences_go_on_from_frame_to_frame_and_from_life_to_life(
    bench: Bench, client: sulina.Client
) -> None:
    for _ in range(2):
        async with client.producer(TOPIC, name="me", batch_records=2) as producer:
            await producer.send_many([b"x"] * 4)
    headers = [Frame(data).header for data in bench.broker.stored[TOPIC]]
    assert [header.first_sequence for header in headers] == [0, 2, 4, 6]


async def test_records_hours_apart_do_not_share_a_frame(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        for hour in range(3):
            await producer.send(b"x", publish_time_us=hour * 3600_000_000)
        await producer.send_many([b"y"], publish_time_us=0)
    assert len(payloads_of(bench)) == 4


async def test_compressed_frames_are_smaller_and_the_same(
    bench: Bench, client: sulina.Client
) -> None:
    for method in ("none", "lz4", "zstd"):
        async with client.producer(f"/default/{method}", compression=method) as producer:
            await producer.send(bytes(5000))
    sizes = {}
    for method in ("none", "lz4", "zstd"):
        (data,) = bench.broker.stored[f"/default/{method}"]
        sizes[method] = len(data)
        assert Frame(data).payloads == [bytes(5000)]
    assert sizes["lz4"] < sizes["none"] > sizes["zstd"]


# ---- partitions ----


async def test_a_key_decides_about_the_partition(bench: Bench, client: sulina.Client) -> None:
    bench.broker.partitions[TOPIC] = 3
    keys = [b"k%d" % number for number in range(20)]
    async with client.producer(TOPIC) as producer:
        for key in keys:
            await producer.send(key, key=key)
        ticket = await producer.send_many(keys, keys=keys)
        last = await ticket
    home = f"{TOPIC}-part-{partition_of(keys[-1], 3)}"
    assert last == sulina.MessageId(home, bench.broker.records(home) - 1)
    for number in range(3):
        frames = payloads_of(bench, f"{TOPIC}-part-{number}")
        mine = [key for key in keys if partition_of(key, 3) == number]
        assert [payload for frame in frames for payload in frame] == mine * 2


async def test_without_a_key_partitions_take_turns_frame_by_frame(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.partitions[TOPIC] = 3
    async with client.producer(TOPIC, batch_records=5) as producer:
        await producer.send_many([b"x"] * 30)
    parts = [payloads_of(bench, f"{TOPIC}-part-{number}") for number in range(3)]
    assert [[len(frame) for frame in frames] for frames in parts] == [[5, 5]] * 3


# ---- refusals ----


async def test_a_record_that_no_frame_can_hold_is_refused(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        with pytest.raises(TooLarge, match="the maximum is"):
            await producer.send(bytes(65 << 20))
        with pytest.raises(TooLarge):
            await producer.send_many([b"small", bytes(65 << 20)])
        await producer.flush()
    assert payloads_of(bench) == []


async def test_mistakes_are_told_in_a_sentence(client: sulina.Client) -> None:
    async with client.producer(TOPIC) as producer:
        with pytest.raises(Refused, match=r"bytes, not str: encode it"):
            await producer.send("text")  # type: ignore[arg-type]
        with pytest.raises(Refused, match="bytes, not int"):
            await producer.send_many([b"x", 3])  # type: ignore[list-item]
        with pytest.raises(Refused, match="keys has 2 entries for 3 payloads"):
            await producer.send_many([b"x"] * 3, keys=["a", "b"])
        with pytest.raises(Refused, match="at least one"):
            await producer.send_many([])
        with pytest.raises(Refused, match="attribute names and values must be str"):
            await producer.send(b"x", attributes={"a": 1})  # type: ignore[dict-item]
        with pytest.raises(Refused, match="microseconds since 1970"):
            await producer.send(b"x", publish_time_us=1 << 70)
        with pytest.raises(Refused, match="UTF-8"):
            await producer.send(b"x", key="\ud800")
    with pytest.raises(Refused, match="not a topic name"):
        client.producer("orders")
    with pytest.raises(Refused, match="one of none, lz4, zstd"):
        client.producer(TOPIC, compression="gzip")
    with pytest.raises(Refused, match="schema_id"):
        client.producer(TOPIC, schema_id=-1)
    with pytest.raises(Refused, match="batch_bytes"):
        client.producer(TOPIC, batch_bytes=0)
    with pytest.raises(Refused, match="reliable"):
        client.producer(TOPIC, delivery="sometimes")


async def test_payloads_may_be_any_bytes_and_are_copied(
    bench: Bench, client: sulina.Client
) -> None:
    changing = bytearray(b"before")
    async with client.producer(TOPIC) as producer:
        await producer.send(changing)
        await producer.send_many((memoryview(b"view"), changing))
        changing[:] = b"after!"
    assert payloads_of(bench) == [[b"before", b"view", b"before"]]


# ---- bounds and ends ----


async def test_senders_wait_while_too_much_is_on_its_way(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, max_pending_bytes=10_000, batch_bytes=1000) as producer:
        sending = asyncio.ensure_future(producer.send_many([bytes(92)] * 500))
        await until(lambda: bench.broker.records(TOPIC) >= 90)
        for _ in range(100):
            await asyncio.sleep(0)
        assert not sending.done()
        assert bench.broker.records(TOPIC) <= 110
        bench.broker.publishing = lambda number: None
        bench.network.cut()
        assert await bench.eventually(_id_of(sending)) == sulina.MessageId(TOPIC, 499)


async def _id_of(sending: asyncio.Future[sulina.Ticket]) -> sulina.MessageId:
    return await (await sending)


async def test_a_sender_that_gives_up_waiting_sends_nothing(
    bench: Bench, client: sulina.Client
) -> None:
    bench.broker.publishing = lambda number: "silence"
    async with client.producer(TOPIC, max_pending_bytes=100) as producer:
        await producer.send(bytes(100))
        sending = asyncio.ensure_future(producer.send(b"late"))
        await asyncio.sleep(0)
        sending.cancel()
        bench.broker.publishing = lambda number: None
        bench.network.cut()
        await bench.eventually(producer.flush())
    assert payloads_of(bench) == [[bytes(100)]]


async def test_a_ticket_may_be_awaited_often_and_by_many(
    bench: Bench, client: sulina.Client
) -> None:
    async with client.producer(TOPIC) as producer:
        ticket = await producer.send(b"x")
        waiting = [asyncio.ensure_future(_await(ticket)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        assert [await task for task in waiting[1:]] == [sulina.MessageId(TOPIC, 0)] * 2
        assert await ticket == sulina.MessageId(TOPIC, 0)


async def _await(ticket: sulina.Ticket) -> sulina.MessageId:
    return await ticket


async def test_closing_flushes_says_goodbye_and_can_be_repeated(
    bench: Bench, client: sulina.Client
) -> None:
    producer = await client.producer(TOPIC).open()
    ticket = await producer.send(b"x")
    await producer.close()
    assert ticket.done()
    assert len(bench.broker.bodies(Command.CLOSE_PRODUCER)) == 1
    await producer.close()
    with pytest.raises(Closed):
        await producer.send(b"y")
    with pytest.raises(Closed):
        await producer.flush()
    with pytest.raises(Closed):
        await producer.open()


async def test_a_producer_must_be_opened_first(client: sulina.Client) -> None:
    with pytest.raises(Closed, match="async with"):
        await client.producer(TOPIC).send(b"x")


async def test_closing_the_client_closes_its_producers(bench: Bench, client: sulina.Client) -> None:
    producer = await client.producer(TOPIC).open()
    ticket = await producer.send(b"x")
    await client.close()
    assert await ticket == sulina.MessageId(TOPIC, 0)
    with pytest.raises(Closed):
        await producer.send(b"y")
    with pytest.raises(Closed):
        client.producer(TOPIC)
