"""``sulina top``: what it shows, what keys do, and a real broker behind it."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from sulina.cli.top.keys import keys_in
from sulina.cli.top.screen import drawn, short
from sulina.cli.top.view import SORTS, Mode, Seen, View
from sulina.operations.overview import (
    BrokerOverview,
    Concern,
    Overview,
    PartState,
    SubscriptionConcern,
    TopicTraffic,
    TrafficSample,
)
from tests.cli.runner import BlockingClient, SulinaCommand

SECONDS = 60.0
NOW = TrafficSample(0, 1234.0, 5_600_000.0, 20.0, 300.0, 45_678, 0.9, 3.5)
TOPICS = (
    TopicTraffic("/default/orders", 1000.0, 5e6, 10.0, 100.0, 40_000),
    TopicTraffic("/default/audit", 234.0, 6e5, 10.0, 200.0, 5_678),
    TopicTraffic("/shop/orders", 0.0, 0.0, 0.0, 0.0, 7),
)
BROKER = BrokerOverview(
    "broker-1",
    "1.0",
    3,
    2,
    5,
    4,
    1024,
    False,
    1000,
    250,
    NOW,
    None,
    {"storage": PartState(True, "fine")},
    TOPICS,
)
CONCERN = SubscriptionConcern(
    "/default/orders", "billing", "broker-1", Concern.GROWING, "add consumers", 40_000, 12.5, 1
)
SEEN = Seen(Overview("broker-1", NOW, (BROKER,), ("broker-2",), 1, 2.0), (CONCERN,))


START = View()


def shown(view: View = START, seen: Seen = SEEN, *, width: int = 120, height: int = 40) -> str:
    console = Console(width=width, height=height, record=True, file=io.StringIO())
    console.print(drawn(seen, view.showing(view.topics(seen.overview)), height))
    return console.export_text()


def pressed(*keys: str, view: View | None = None) -> View:
    view = (view or View()).showing(TOPICS)
    for key in keys:
        view = view.press(key)
        view = view.showing(view.topics(SEEN.overview))
    return view


def test_the_screen_shows_totals_brokers_topics_and_what_needs_attention() -> None:
    text = shown()
    assert "in 1.23k/s 5.60MB/s" in text and "p99 3.50 ms" in text
    assert re.search(r"broker-1 +ok +3 +5 +4 +1.23k", text) and "75%" in text
    assert re.search(r"broker-2 +silent", text)
    assert re.search(r"/default/orders +1.00k +5.00M", text)
    assert re.search(r"/default/orders +billing +growing +40.0k +12.5", text)


def test_a_part_that_does_not_serve_is_the_state_of_its_broker() -> None:
    broken = replace(BROKER, parts={"storage": PartState(False, "no node answers")})
    seen = replace(SEEN, overview=replace(SEEN.overview, brokers=(broken,)))
    assert re.search(r"broker-1 +storage ", shown(seen=seen))
    worse = {"storage": PartState(True, "2 of 3 are healthy", "storage-3 does not serve")}
    seen = replace(SEEN, overview=replace(SEEN.overview, brokers=(replace(BROKER, parts=worse),)))
    assert re.search(r"broker-1 +degraded: storage ", shown(seen=seen))


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (200, 60)])
def test_it_fits_the_terminal(width: int, height: int) -> None:
    many = replace(BROKER, busiest=tuple(replace(TOPICS[0], topic=f"/d/{n}") for n in range(500)))
    seen = replace(SEEN, overview=replace(SEEN.overview, brokers=(many,)))
    lines = shown(seen=replace(seen, attention=[CONCERN] * 300), width=width, height=height)
    assert len(lines.splitlines()) <= max(height, 19)
    assert max(map(len, lines.splitlines())) <= width


def test_in_a_narrow_terminal_numbers_are_whole_or_left_out() -> None:
    named = replace(BROKER, broker="a-broker-with-a-long-name")
    seen = replace(SEEN, overview=replace(SEEN.overview, brokers=(named,)))
    text = shown(seen=seen, width=80)
    assert re.search(r"a-broker\S*… +ok +3 +4 +1.23k +20 +45.7k +3.50", text), text
    assert "tier lag" not in text  # this broker has no object store
    text = shown(seen=seen, width=48)
    assert re.search(r"a-broker\S* +ok +1.23k +20.* +45.7k", text) and "producers" not in text, text


def test_sorting_filtering_and_opening_a_topic() -> None:
    def names(view: View) -> list[str]:
        return [each.topic for each in view.topics(SEEN.overview)]

    assert names(pressed()) == ["/default/orders", "/default/audit", "/shop/orders"]
    by_name = pressed(*"s" * (len(SORTS) - 1))
    assert by_name.sort == "topic" and names(by_name)[0] == "/default/audit"
    filtered = pressed("/", *"ORD", "enter")
    assert names(filtered) == ["/default/orders", "/shop/orders"]
    opened = pressed("down", "enter", view=filtered)
    assert (opened.mode, opened.topic) == (Mode.TOPIC, "/shop/orders")
    assert "it has no subscriptions" in shown(opened)
    assert pressed("esc", view=opened).mode is Mode.LIST
    assert names(pressed("/", *"ORD", "esc")) == names(pressed())


def test_leaving_and_pausing() -> None:
    assert pressed("q").left and pressed("ctrl-c").left
    assert not pressed("/", "q").left, "it is part of a filter"
    assert pressed("p").paused and not pressed("p", "p").paused


KEYS = st.sampled_from([*"qsp/jkxä", "up", "down", "enter", "esc", "left", "right", "backspace"])


@given(st.lists(KEYS))
def test_any_keys_leave_a_view_that_can_be_drawn(keys: list[str]) -> None:
    assert shown(pressed(*keys))


def test_keys_are_told_apart() -> None:
    assert keys_in("a\x1b[A\x1b[Bq") == ["a", "up", "down", "q"]
    assert keys_in("\x1b") == ["esc"] and keys_in("\r\x7f") == ["enter", "backspace"]
    assert keys_in("x\x1b[200~pasted") == ["x"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (7, "7"), (0.5, "0.50"), (999, "999"), (1234, "1.23k"), (12_345_678, "12.3M")],
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text and short(None) == "-"


def test_it_prints_once_for_pipes_and_scripts(sulina: SulinaCommand) -> None:
    BlockingClient(sulina.url).publish("/default/top", "a", "b")
    assert "broker-1" in sulina("top").stdout
    found = json.loads(sulina("top", "--json").stdout)
    assert found["overview"]["brokers"][0]["broker"] == "broker-1"
    assert isinstance(found["attention"], list)


async def test_it_runs_in_a_terminal_until_q(sulina: SulinaCommand) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "sulina.cli", "top", "--interval", "0.5"]
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**sulina.environment, "TERM": "xterm"},
    )
    os.close(theirs)
    try:
        await asyncio.to_thread(_until, ours, b"brokers")
        os.write(ours, b"\x1b[B")
        os.write(ours, b"q")
        assert await asyncio.to_thread(_ended, ours, process) == 0
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _until(fd: int, wanted: bytes) -> bytes:
    """Read until it was written."""
    seen, end = b"", time.monotonic() + SECONDS
    while wanted not in seen:
        assert time.monotonic() < end, seen
        if select.select([fd], [], [], 1)[0]:
            seen += os.read(fd, 65536)
    return seen


def _ended(fd: int, process: subprocess.Popen[bytes]) -> int:
    """Its exit code; reads what it writes meanwhile, so that it can end."""
    end = time.monotonic() + SECONDS
    while process.poll() is None:
        assert time.monotonic() < end
        if select.select([fd], [], [], 0.1)[0]:
            try:
                os.read(fd, 65536)
            except OSError:
                break
    return process.wait(SECONDS)
