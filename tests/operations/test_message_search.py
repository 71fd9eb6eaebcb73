"""Finding messages by key and text, forwards and backwards, and publishing dead letters again."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from pathlib import Path

import fastavro
import pytest
import pytest_asyncio

import sulina
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.doors.listen import Listen
from broker_containers.operations import message_search
from sulina.errors import Refused
from sulina.operations.messages import FoundMessages, NewMessage

TOPIC = "/default/found"
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[sulina.Client]:
    folder: Path = tmp_path_factory.mktemp("found")
    async with (
        run_embedded(folder, DoorSettings(Listen(port=0))) as server,
        sulina.connect(server.addresses.url) as client,
    ):
        for first in range(0, 3000, 500):  # several frames
            async with client.producer(TOPIC) as producer:
                for number in range(first, first + 500):
                    await producer.send(f"order {number}".encode(), key=f"customer-{number % 100}")
        await client.admin.messages.publish(
            TOPIC, [NewMessage(b"a last one", attributes={"colour": "green"})]
        )
        yield client


def offsets(found: FoundMessages) -> list[int]:
    return [message.offset for message in found.messages]


async def test_a_key_is_found_oldest_or_newest_first_in_pages(client: sulina.Client) -> None:
    search = client.admin.messages.search
    found = await search(TOPIC, key="customer-7", limit=3)
    assert offsets(found) == [7, 107, 207] and not found.at_end
    found = await search(TOPIC, key="customer-7", limit=3, start=sulina.Start.offset(208))
    assert offsets(found) == [307, 407, 507]
    newest = await search(TOPIC, key="customer-7", limit=3, newest_first=True)
    assert offsets(newest) == [2907, 2807, 2707]
    newest = await search(
        TOPIC, key="customer-7", limit=3, newest_first=True, before=newest.next_offset
    )
    assert offsets(newest) == [2607, 2507, 2407]
    assert (found.start_offset, found.end_offset) == (0, 3001)


async def test_text_is_found_in_payloads_keys_and_attributes(client: sulina.Client) -> None:
    search = client.admin.messages.search
    assert offsets(await search(TOPIC, text="order 1234")) == [1234]
    assert len((await search(TOPIC, text="customer-99", limit=100)).messages) == 30
    [found] = (await search(TOPIC, text="colour=green")).messages
    assert found.payload == b"a last one" and found.size == 10
    nothing = await search(TOPIC, text="nowhere")
    assert nothing.messages == () and nothing.at_end and nothing.scanned == 3001


async def test_without_a_filter_the_newest_come_first(client: sulina.Client) -> None:
    found = await client.admin.messages.search(TOPIC, newest_first=True, limit=2)
    assert offsets(found) == [3000, 2999] and found.next_offset == 2999
    rest = await client.admin.messages.search(TOPIC, newest_first=True, before=1, limit=10)
    assert offsets(rest) == [0] and rest.at_end


@pytest.mark.parametrize("backwards", [False, True])
async def test_a_search_ends_after_a_bounded_amount_and_continues(
    client: sulina.Client, monkeypatch: pytest.MonkeyPatch, backwards: bool
) -> None:
    monkeypatch.setattr(message_search, "_MOST_SCANNED", 40_000)
    monkeypatch.setattr(message_search, "_READ_BYTES", 1_000)
    monkeypatch.setattr(message_search, "_WINDOW", 500)
    seen: list[int] = []
    at, calls, scanned = None, 0, 0
    while True:
        found = (
            await client.admin.messages.search(
                TOPIC, key="customer-7", newest_first=True, before=at, limit=4
            )
            if backwards
            else await client.admin.messages.search(
                TOPIC, key="customer-7", start=sulina.Start.offset(at or 0), limit=4
            )
        )
        seen += offsets(found)
        at, calls, scanned = found.next_offset, calls + 1, scanned + found.scanned
        if found.at_end:
            break
    assert sorted(seen) == list(range(7, 3000, 100)) and len(set(seen)) == len(seen)
    assert calls > 1 and scanned == 3001  # each message is counted once


async def test_avro_payloads_are_shown_as_json(client: sulina.Client) -> None:
    schema = {"type": "record", "name": "Tea", "fields": [{"name": "cups", "type": "int"}]}
    made = await client.admin.schemas.register(
        "tea", "avro", definition=str(schema).replace("'", '"')
    )
    payload = io.BytesIO()
    fastavro.schemaless_writer(payload, schema, {"cups": 3})
    one = NewMessage(payload.getvalue(), schema_id=made.id, schema_version=1)
    other = NewMessage(b"\xff\xff\xff\xff\xff\xff", schema_id=made.id, schema_version=1)
    await client.admin.messages.publish("/default/tea", [one, other])
    good, bad = (await client.admin.messages.search("/default/tea")).messages
    assert good.decoded == '{\n  "cups": 3\n}' and good.undecoded is None
    assert bad.decoded is None and bad.undecoded


async def test_dead_letters_are_published_again_where_they_came_from(client: sulina.Client) -> None:
    origin, letters = "/default/origin", "/default/letters"
    await client.admin.topics.create(origin)
    added = {"x-original-topic": origin, "x-failure-reason": "broken", "colour": "red"}
    await client.admin.messages.publish(
        letters, [NewMessage(b"failed", b"k", added), NewMessage(b"of somebody else")]
    )
    done = await client.admin.messages.replay(letters)
    assert (done.replayed, done.left_out, dict(done.topics)) == (1, 1, {origin: 1})
    assert done.at_end and done.next_offset == 2
    [again] = (await client.admin.messages.peek(origin)).messages
    assert (again.payload, again.key, dict(again.attributes)) == (
        b"failed",
        b"k",
        {"colour": "red"},
    )
    with pytest.raises(Refused):
        await client.admin.messages.replay("/default/missing")
