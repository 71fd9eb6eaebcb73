"""Publishing and reading over HTTP."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest

import sulina
from broker_containers.broker.settings import HttpSettings
from sulina.client.routing import partition_of
from tests.http.client import Http, running
from tests.support.server import SulinaProcess

SEVERAL = {"Content-Type": "application/vnd.sulina.messages+json"}


def messages(topic: str, query: str = "") -> str:
    return f"/api/v1/topics/default/{topic}/messages{query}"


async def test_a_published_message_is_read_back_with_key_and_attributes(
    http: Http, topic: str
) -> None:
    headers = {"Sulina-Key": "käfer", "Sulina-Attribute-Colour": "grün"}
    first = await http.ok("POST", messages(topic), data=b"hello", headers=headers)
    second = await http.ok("POST", messages(topic), {"json": True})
    assert (first["offset"], second["offset"]) == (0, 1)
    read = await http.ok("GET", messages(topic))
    assert (read["next_offset"], read["at_end"]) == (2, True)
    one, two = read["messages"]
    assert one["payload"] == "hello"
    assert one["key"] == "käfer"
    assert one["attributes"] == {"colour": "grün"}
    assert one["time_us"] == first["time_us"]
    assert two["payload"] == '{"json": true}'
    assert "key" not in two


async def test_bytes_that_are_not_text_are_returned_as_base64(http: Http, topic: str) -> None:
    payload = bytes(range(256))
    await http.ok("POST", messages(topic), data=payload)
    await http.ok("POST", messages(topic), data=b"")
    binary, empty = (await http.ok("GET", messages(topic)))["messages"]
    assert base64.b64decode(binary["payload_base64"]) == payload
    assert empty["payload"] == ""


async def test_several_messages_go_in_one_request_and_stay_in_order(http: Http, topic: str) -> None:
    listed = {
        "messages": [
            {"payload": "one", "key": "a", "attributes": {"Case": "Kept"}},
            {"payload_base64": "AP8=", "key_base64": "gA=="},
        ]
    }
    sent = await http.ok("POST", messages(topic), listed, headers=SEVERAL)
    assert [each["offset"] for each in sent["messages"]] == [0, 1]
    one, two = (await http.ok("GET", messages(topic)))["messages"]
    assert (one["payload"], one["key"], one["attributes"]) == ("one", "a", {"Case": "Kept"})
    assert (two["payload_base64"], two["key_base64"]) == ("AP8=", "gA==")


async def test_messages_expire_by_a_header_or_a_field(
    http: Http, topic: str, shared_sulina_process: SulinaProcess
) -> None:
    url = shared_sulina_process.url
    async with sulina.connect(url) as client, client.consumer(f"/default/{topic}", "s"):
        pass
    await http.ok("POST", messages(topic), data=b"short", headers={"Sulina-Expires-Ms": "1"})
    listed = {"messages": [{"payload": "short, too", "expires_ms": 1}]}
    await http.ok("POST", messages(topic), listed, headers=SEVERAL)
    listed = {"messages": [{"payload": "x", "expires_ms": 1}, {"payload": "y"}]}
    answer = await http("POST", messages(topic), listed, headers=SEVERAL)
    assert answer.status == 400 and "expire together" in answer.json["detail"]
    beside = {"messages": [{"payload": "x"}], "expires_ms": 1}
    answer = await http("POST", messages(topic), beside, headers=SEVERAL)
    assert "goes into each one" in answer.problem(400, "refused")
    answer = await http("POST", messages(topic), data=b"x", headers={"Sulina-Expires-Ms": "0"})
    assert "Sulina-Expires-Ms must be a whole number from 1 " in answer.problem(400, "refused")
    listed = {"messages": [{"payload": "x", "expires_ms": 0}]}
    answer = await http("POST", messages(topic), listed, headers=SEVERAL)
    assert "expires_ms must be a whole number from 1 " in answer.problem(400, "refused")
    await http.ok("POST", messages(topic), data=b"long", headers={"Sulina-Expires-Ms": "3600000"})
    async with (
        sulina.connect(url) as client,
        client.consumer(f"/default/{topic}", "s") as consumer,
    ):
        assert (await consumer.receive(20)).payload == b"long"


@pytest.mark.parametrize(
    ("message", "remedy"),
    [
        ({}, "messages[1].payload is missing: give it as text, or as payload_base64"),
        ({"payload": {"a": 1}}, "put JSON in quotes"),
        ({"payload": "x", "payload_base64": "eA=="}, "choose one"),
        ({"payload_base64": "not base64!"}, "standard alphabet"),
        ({"payload": "x", "attributes": {"a": 1}}, "messages[1].attributes.a must be text"),
        ({"payload": "x", "attributes": []}, "messages[1].attributes must be an object"),
        ({"payload": "x", "kee": "y"}, "no field 'kee'"),
        ({"payload": "\ud800"}, "surrogate"),
        ("x", "messages[1] must be an object"),
    ],
)
async def test_a_malformed_message_is_refused_and_none_is_stored(
    http: Http, topic: str, message: object, remedy: str
) -> None:
    await http.ok("POST", "/api/v1/topics", {"topic": f"/default/{topic}"})
    listed = {"messages": [{"payload": "fine"}, message]}
    answer = await http("POST", messages(topic), listed, headers=SEVERAL)
    assert remedy in answer.problem(400, "refused")
    assert (await http.ok("GET", messages(topic)))["messages"] == []


async def test_reading_starts_anywhere_and_continues_where_it_ended(http: Http, topic: str) -> None:
    listed = {"messages": [{"payload": str(number)} for number in range(25)]}
    await http.ok("POST", messages(topic), listed, headers=SEVERAL)
    found: list[str] = []
    place, at_end = 0, False
    while not at_end:
        read = await http.ok("GET", messages(topic, f"?start={place}&limit=7"))
        found += [message["payload"] for message in read["messages"]]
        place, at_end = read["next_offset"], read["at_end"]
    assert found == [str(number) for number in range(25)]
    assert (await http.ok("GET", messages(topic, "?start=latest")))["next_offset"] == 25
    [last] = (await http.ok("GET", messages(topic, "?start=24")))["messages"]
    assert last["payload"] == "24"


@pytest.mark.parametrize("query", ["?limit=0", "?limit=1001", "?limit=x", "?start=soon", "?a=b"])
async def test_an_invalid_start_or_limit_is_refused(http: Http, topic: str, query: str) -> None:
    await http.ok("POST", "/api/v1/topics", {"topic": f"/default/{topic}"})
    (await http("GET", messages(topic, query))).problem(400, "refused")


async def test_an_answer_is_bounded_in_bytes(http: Http, topic: str) -> None:
    for _ in range(3):
        await http.ok("POST", messages(topic), data=b"x" * 600_000)
    read = await http.ok("GET", messages(topic, "?limit=100"))
    assert [len(message["payload"]) for message in read["messages"]] == [600_000]
    assert (read["next_offset"], read["at_end"]) == (1, False)


async def test_an_answer_is_bounded_in_bytes_whatever_its_messages_consist_of(
    http: Http, shared_sulina_process: SulinaProcess, topic: str
) -> None:
    async with (
        sulina.connect(shared_sulina_process.url) as client,
        client.producer(f"/default/{topic}", compression="zstd") as producer,
    ):
        for _ in range(100):
            await producer.send(b"", attributes={"a": "x" * 50_000})
        await producer.send(b"\0" * 500_000)
    answer = await http("GET", messages(topic, "?limit=1000"))
    assert answer.status == 200 and len(answer.body) < 1_100_000
    assert answer.json["messages"] and not answer.json["at_end"]
    last = await http("GET", messages(topic, "?start=100"))
    assert "takes 3000" in last.problem(413, "too-large")


async def test_concurrent_publishes_get_distinct_offsets_and_reach_consumers(
    http: Http, topic: str, shared_sulina_process: SulinaProcess
) -> None:
    count = 300
    sent = await asyncio.gather(
        *(http.ok("POST", messages(topic), data=b"%d" % number) for number in range(count))
    )
    by_offset = {answer["offset"]: number for number, answer in enumerate(sent)}
    assert sorted(by_offset) == list(range(count))
    async with sulina.connect(shared_sulina_process.url) as client:
        start = sulina.Start.earliest()
        async with client.consumer(f"/default/{topic}", "all", start=start) as consumer:
            for offset in range(count):
                message = await asyncio.wait_for(consumer.receive(), 30)
                assert (message.offset, int(message.payload)) == (offset, by_offset[offset])
                await consumer.ack(message)


async def test_a_key_goes_to_the_partition_that_clients_choose_for_it(
    http: Http, topic: str
) -> None:
    await http.ok("POST", "/api/v1/topics", {"topic": f"/default/{topic}", "partitions": 3})
    for key in ("a", "b", "c", "d", "e"):
        sent = await http.ok("POST", messages(topic), data=b"x", headers={"Sulina-Key": key})
        assert sent["topic"] == f"/default/{topic}-part-{partition_of(key.encode(), 3)}"
    listed = {"messages": [{"payload": key, "key": key} for key in "abcde"] + [{"payload": "-"}]}
    placed = (await http.ok("POST", messages(topic), listed, headers=SEVERAL))["messages"]
    for key, place in zip("abcde", placed, strict=False):
        assert place["topic"] == f"/default/{topic}-part-{partition_of(key.encode(), 3)}"
    parts = {(await http.ok("POST", messages(topic), data=b"x"))["topic"] for _ in range(3)}
    assert len(parts) == 3
    answer = await http("GET", messages(topic))
    assert f"{topic}-part-0" in answer.problem(400, "refused")


async def test_a_refused_message_does_not_affect_others_in_the_same_frame(
    http: Http, topic: str
) -> None:
    await http.ok("POST", "/api/v1/topics", {"topic": f"/default/{topic}"})
    await http.ok("PATCH", f"/api/v1/topics/default/{topic}/policy", {"max_message_size": 10})
    bodies = [b"small", b"much too large"] * 20
    answers = await asyncio.gather(*(http("POST", messages(topic), data=each) for each in bodies))
    for body, answer in zip(bodies, answers, strict=True):
        if body == b"small":
            assert answer.status == 200
        else:
            assert "limit of 10" in answer.problem(413, "too-large")
    read = await http.ok("GET", messages(topic, "?limit=100"))
    assert [message["payload"] for message in read["messages"]] == ["small"] * 20


async def test_a_non_reliable_topic_accepts_messages_and_stores_none(
    http: Http, topic: str
) -> None:
    wanted = {"topic": f"/default/{topic}", "delivery": "non_reliable"}
    await http.ok("POST", "/api/v1/topics", wanted)
    assert (await http.ok("POST", messages(topic), data=b"x"))["offset"] == 0
    assert (await http.ok("GET", messages(topic)))["messages"] == []


async def test_a_topic_recreated_with_partitions_is_noticed(http: Http, topic: str) -> None:
    await http.ok("POST", messages(topic), data=b"x")
    await http.ok("DELETE", f"/api/v1/topics/default/{topic}")
    await http.ok("POST", "/api/v1/topics", {"topic": f"/default/{topic}", "partitions": 2})
    first = await http("POST", messages(topic), data=b"x")
    second = await http.ok("POST", messages(topic), data=b"x")
    assert first.status in (200, 400)
    assert "-part-" in second["topic"]


async def test_publishing_beyond_the_waiting_limit_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(max_waiting_bytes=1000)) as broker:
        answer = await broker.http("POST", messages("t"), data=b"x" * 2000)
        answer.problem(429, "overloaded")
        assert answer.headers["Retry-After"] == "1"
        await broker.http.ok("POST", messages("t"), data=b"x")
