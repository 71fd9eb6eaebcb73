"""Errors are problem details with the right status and a remedy."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from broker_containers.broker.settings import HttpSettings
from tests.http.client import Http, running

TOPICS = "/api/v1/topics"


async def test_an_unknown_path_points_to_the_documentation(http: Http) -> None:
    answer = await http("GET", "/api/v1/nothing")
    assert "/docs" in answer.problem(404, "no-such-path")


async def test_a_wrong_method_names_the_right_ones(http: Http) -> None:
    answer = await http("PUT", TOPICS)
    assert "use GET, HEAD, POST" in answer.problem(405, "wrong-method")
    assert answer.headers["Allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize("body", [b"{", b"nonsense", b"[1]", b'"text"', b"[" * 60_000, b"\xff"])
async def test_a_body_that_is_not_a_json_object_is_refused(http: Http, body: bytes) -> None:
    answer = await http("POST", TOPICS, data=body, headers={"Content-Type": "application/json"})
    assert "JSON" in answer.problem(400, "refused")


async def test_a_body_of_another_type_is_refused(http: Http) -> None:
    answer = await http("POST", TOPICS, data=b"<a/>", headers={"Content-Type": "text/xml"})
    assert "application/json" in answer.problem(415, "wrong-media-type")


async def test_a_misspelled_field_is_not_ignored(http: Http) -> None:
    answer = await http("POST", TOPICS, {"topic": "/default/x", "partition": 3})
    detail = answer.problem(400, "refused")
    assert "'partition'" in detail and "partitions" in detail


async def test_a_missing_field_is_named(http: Http) -> None:
    assert "topic is missing" in (await http("POST", TOPICS, {})).problem(400, "refused")


async def test_an_unexpected_body_is_refused(http: Http) -> None:
    answer = await http("DELETE", f"{TOPICS}/default/x", {"force": True})
    assert "takes no body" in answer.problem(400, "refused")


@pytest.mark.parametrize(
    ("query", "remedy"),
    [("name=x", "choose from namespace"), ("all=maybe", "true or false"), ("all=1&all=0", "twice")],
)
async def test_a_wrong_parameter_is_refused(http: Http, query: str, remedy: str) -> None:
    assert remedy in (await http("GET", f"{TOPICS}?{query}")).problem(400, "refused")


async def test_a_body_that_is_too_large_is_refused_with_and_without_content_length(
    http: Http,
) -> None:
    large = b'{"topic": "' + b"x" * (70 << 10) + b'"}'
    json = {"Content-Type": "application/json"}
    announced = await http("POST", TOPICS, data=large, headers=json)
    assert "limit of 65536" in announced.problem(413, "too-large")

    async def parts() -> object:
        for start in range(0, len(large), 10_000):
            yield large[start : start + 10_000]

    in_parts = await http("POST", TOPICS, data=parts(), headers=json)
    assert "limit of 65536" in in_parts.problem(413, "too-large")


async def test_what_does_not_exist_is_not_found(http: Http) -> None:
    for path in (f"{TOPICS}/default/none", f"{TOPICS}/default/none/subscriptions"):
        assert "/default/none" in (await http("GET", path)).problem(404, "not-found")


async def test_a_name_that_is_taken_is_a_conflict(http: Http, topic: str) -> None:
    await http.ok("POST", TOPICS, {"topic": f"/default/{topic}"})
    answer = await http("POST", TOPICS, {"topic": f"/default/{topic}"})
    answer.problem(409, "already-exists")


async def test_a_bad_name_is_refused_with_the_rule(http: Http) -> None:
    answer = await http("GET", f"{TOPICS}/default/a%20b")
    assert "/namespace/topic" in answer.problem(400, "refused")


async def test_bytes_that_are_not_http_are_refused_without_effect_on_others(http: Http) -> None:
    port = int(http.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"\x16\x03\x01 this is not HTTP\r\n\r\n")
    assert (await asyncio.wait_for(reader.read(), 30)).startswith(b"HTTP/1.0 400")
    writer.close()
    await http.ok("GET", "/health/live")


async def test_another_web_site_can_not_change_anything(http: Http, topic: str) -> None:
    foreign = {"Origin": "https://elsewhere.example"}
    path = f"{TOPICS}/default/{topic}/messages"
    answer = await http("POST", path, data=b"x", headers=foreign)
    assert "--http-cors" in answer.problem(403, "other-site")
    assert "Access-Control-Allow-Origin" not in answer.headers
    own = {"Origin": http.url}
    assert (await http("POST", path, data=b"x", headers=own)).status == 200


async def test_an_allowed_web_site_may_call(tmp_path: Path) -> None:
    site = "https://console.example"
    async with running(tmp_path, HttpSettings(cors_origins=(site,))) as broker:
        asking = {"Origin": site, "Access-Control-Request-Method": "PATCH"}
        preflight = await broker.http("OPTIONS", TOPICS, headers=asking)
        assert preflight.status == 204
        assert preflight.headers["Access-Control-Allow-Origin"] == site
        assert "PATCH" in preflight.headers["Access-Control-Allow-Methods"]
        made = await broker.http("POST", TOPICS, {"topic": "/default/x"}, headers={"Origin": site})
        assert made.status == 201
        assert made.headers["Access-Control-Allow-Origin"] == site
        other = {"Origin": "https://elsewhere.example"}
        assert (await broker.http("POST", TOPICS, {}, headers=other)).status == 403


async def test_a_body_that_does_not_arrive_in_time_is_refused(tmp_path: Path) -> None:
    async with running(tmp_path, HttpSettings(request_seconds=0.1)) as broker:
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(b"POST /api/v1/topics HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{")
        answer = await asyncio.wait_for(reader.read(), 30)
        assert b" 408 " in answer and b"/docs#too-slow" in answer
        writer.close()


async def test_a_changed_limit_holds_after_a_restart(tmp_path: Path) -> None:
    large = b'{"topic": "' + b"x" * 2000 + b'"}'
    json = {"Content-Type": "application/json"}
    async with running(tmp_path) as broker:
        path = "/api/v1/config/http.max_body_bytes"
        await broker.http.ok("PUT", path, {"value": "1KiB"})
        answer = await broker.http("POST", TOPICS, data=large, headers=json)
        assert answer.status != 413, "the door was open before"
    async with running(tmp_path) as broker:
        answer = await broker.http("POST", TOPICS, data=large, headers=json)
        assert "limit of 1024" in answer.problem(413, "too-large")
