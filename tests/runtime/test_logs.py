"""The log: the same fields as text and as JSON, one line each."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import aiohttp

from sulina.runtime.logs import JsonLines, TextLines, logged_with, request_id, trace_id
from sulina.runtime.terminal import visible
from tests.http.client import Http
from tests.support.server import SulinaProcess

NAME = "x\nERROR \x1b[31m\u202e"


def record(text: str, *args: object, **more: Any) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": text, "args": args, **more})


def test_a_name_cannot_add_lines_or_colours_to_a_log() -> None:
    line = TextLines().format(record("client %s", NAME))
    assert line.endswith(": client x\\x0aERROR \\x1b[31m\\u202e")
    line = JsonLines({}).format(record("client %s", NAME))
    assert line.isascii() and line.isprintable()
    assert json.loads(line)["message"] == f"client {NAME}"
    assert visible("a\tb\nc\rd\x85") == "a\tb\nc\\x0dd\\x85"


def test_a_line_says_which_process_topic_and_request_it_is_about() -> None:
    with logged_with(request="r-1", operation="topic.create"), logged_with(trace="ab"):
        about = record(
            "tiering of %s failed", "/shop/orders", name="a.b", levelname="WARNING", created=0.25
        )
        found = json.loads(JsonLines({"broker": "broker-1"}).format(about))
        text = TextLines().format(about)
    assert found == {
        "time": "1970-01-01T00:00:00.250Z",
        "level": "warning",
        "logger": "a.b",
        "message": "tiering of /shop/orders failed",
        "broker": "broker-1",
        "topic": "/shop/orders",
        "request": "r-1",
        "operation": "topic.create",
        "trace": "ab",
    }
    assert text.endswith(
        "tiering of /shop/orders failed [request=r-1 operation=topic.create trace=ab]"
    )


def test_a_traceback_is_part_of_its_line() -> None:
    try:
        raise ValueError(NAME)
    except ValueError:
        line = JsonLines({}).format(record("it failed", exc_info=sys.exc_info()))
    assert "\n" not in line and "ValueError" in json.loads(line)["error"]


def test_ids_of_callers_are_taken_only_in_a_safe_form() -> None:
    assert request_id("a-1.b:2") == "a-1.b:2"
    assert request_id("a b") == request_id("x" * 65) == request_id("") == ""
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    assert trace_id(f"00-{trace}-00f067aa0ba902b7-01") == trace
    assert trace_id(f"00-{trace}-01") == trace_id("") == ""


async def test_a_broker_logs_requests_with_the_ids_that_their_callers_gave(tmp_path: Path) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    sent = {"X-Request-Id": "mine-7", "traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    options = ("--log-level", "info", "--log-format", "json")
    with SulinaProcess(tmp_path / "data", *options) as server:
        async with aiohttp.ClientSession() as session:
            http = Http(session, server.http_url)
            made = await http("POST", "/api/v1/topics", {"topic": "/default/x"}, headers=sent)
            assert (made.status, made.headers["X-Request-Id"]) == (201, "mine-7")
            other = await http("GET", "/api/v1/topics/default/missing")
            assert other.status == 404
    lines = [json.loads(line) for line in (tmp_path / "data.log").read_text().splitlines()]
    [created] = [each for each in lines if each.get("request") == "mine-7"]
    assert created["operation"] == "topic.create" and created["topic"] == "/default/x"
    assert created["trace"] == trace and created["broker"] == "broker-1"
    [missing] = [each for each in lines if each.get("request") == other.headers["X-Request-Id"]]
    assert missing["operation"] == "topic.describe"
