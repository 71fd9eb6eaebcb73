"""Measures what an open console costs a broker, and how long it takes to find a key.

.venv/bin/python -m tests.console.measure --topics 10000 --messages 1000000

Prints JSON: the broker's processor time per second without and with consoles that show the
overview and the busiest topics, and the seconds, calls and messages of a search by key.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path

import psutil

import sulina
from sulina.operations.messages import NewMessage
from tests.console.browser import Browser, chromium
from tests.http.client import http_client
from tests.support.server import SulinaProcess

_SECONDS = 30.0
_AT_ONCE = 64
_KEYED = "/default/keyed"


async def _open_topics(client: sulina.Client, count: int) -> None:
    limit = asyncio.Semaphore(_AT_ONCE)

    async def one(number: int) -> None:
        async with limit:
            await client.admin.messages.publish(f"/default/t-{number:05}", [NewMessage(b"x")])

    await asyncio.gather(*map(one, range(count)))


async def _cost(process: psutil.Process) -> float:
    def used() -> float:
        times = process.cpu_times()
        return float(times.user + times.system)

    before, began = used(), time.monotonic()
    await asyncio.sleep(_SECONDS)
    return (used() - before) / (time.monotonic() - began)


async def _search(url: str, count: int) -> dict[str, float]:
    began, calls, scanned, start = time.monotonic(), 0, 0, 0
    async with http_client(url) as http:
        while True:
            path = f"/api/v1/topics{_KEYED}/message-search?key=key-{count - 1}&start={start}"
            found = await http.ok("GET", path)
            calls, scanned, start = calls + 1, scanned + found["scanned"], found["next_offset"]
            if found["messages"] or found["at_end"]:
                break
    assert [each["key"] for each in found["messages"]] == [f"key-{count - 1}"]
    return {"seconds": time.monotonic() - began, "calls": calls, "messages": scanned}


async def _find(browser: Browser, url: str, topics: int, messages: int) -> dict[str, float]:
    """Find one topic and one message, as a person does."""
    began = time.monotonic()
    await browser.fill("Search by name", f"t-{topics - 1:05}")
    await browser.sees("1 to 1 of 1", f"/default/t-{topics - 1:05}")
    named = time.monotonic()
    await browser.goto(f"{url}/#/topics{_KEYED}?oldest=true")
    await browser.sees("key-0")
    opened = time.monotonic()
    await browser.fill("Key", f"key-{messages - 1}")
    await browser.click("Search")
    await browser.sees("1 shown", f"key-{messages - 1}")
    done = time.monotonic()
    return {"topic_by_name": round(named - began, 2), "message_by_key": round(done - opened, 2)}


async def _measure(topics: int, messages: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder, SulinaProcess(Path(folder) / "data") as server:
        process = psutil.Process(server.pid)
        async with sulina.connect(server.url) as client:
            await client.admin.quotas.namespace("default", topics=0)
            await _open_topics(client, topics)
            async with client.producer(_KEYED) as producer:
                for number in range(messages):
                    await producer.send(b"x" * 100, key=f"key-{number}")
        found = await _search(server.http_url, messages)
        alone = await _cost(process)
        async with (
            chromium(Path(folder) / "one") as overview,
            chromium(Path(folder) / "two") as listed,
        ):
            await overview.goto(f"{server.http_url}/")
            await listed.goto(f"{server.http_url}/#/topics?order=records&descending=true")
            await overview.sees("Busiest topics")
            await listed.sees("/default/t-")
            watched = await _cost(process)
            in_browser = await _find(listed, server.http_url, topics, messages)
            assert not overview.errors + listed.errors
        server.kill()  # closing that many topics takes long on a busy machine
    return {
        "topics": topics,
        "cores_without_a_console": round(alone, 4),
        "cores_with_two_consoles": round(watched, 4),
        "search_by_key": found,
        "seconds_in_the_browser": in_browser,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    given = parser.parse_args()
    print(json.dumps(asyncio.run(_measure(given.topics, given.messages)), indent=2))  # noqa: T201
