"""The wall clock of a real broker jumps: it says so, and goes on.

``libfaketime`` changes the time that one process sees; its monotonic clock stays true, as a
machine's does when somebody sets the date.
"""

from __future__ import annotations

import asyncio
import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import sulina
from sulina import Client, Start
from tests.support.server import SulinaProcess

LIBRARY = Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
TOPIC = "/default/jumping"
PATIENCE = 100.0


@pytest.mark.skipif(not LIBRARY.exists(), reason="libfaketime is missing: apt-get install faketime")
async def test_a_broker_whose_clock_jumps_says_so_and_goes_on(tmp_path: Path) -> None:
    shift = tmp_path / "shift"
    shift.write_text("+0\n")
    environment = ("env", f"LD_PRELOAD={LIBRARY}", f"FAKETIME_TIMESTAMP_FILE={shift}")
    settings = ("FAKETIME_DONT_FAKE_MONOTONIC=1", "FAKETIME_NO_CACHE=1")
    with SulinaProcess(tmp_path / "data", prefix=(*environment, *settings)) as server:
        async with sulina.connect(server.url) as client, asyncio.timeout(PATIENCE):
            before = await _publish(client, b"before")
            shift.write_text("+3600\n")
            await _until(lambda: _metric(server, "sulina_clock_jumps_total") == 1)
            assert _metric(server, "sulina_clock_last_jump_seconds") > 3500
            forward = await _publish(client, b"forward")
            shift.write_text("-3600\n")
            await _until(lambda: _metric(server, "sulina_clock_jumps_total") == 2)
            back = await _publish(client, b"back")
            assert [before, forward, back] == [0, 1, 2]
            async with client.consumer(TOPIC, "s", start=Start.earliest()) as consumer:
                taken = [await consumer.receive() for _ in range(3)]
                for each in taken:
                    await consumer.ack(each)
            assert [each.payload for each in taken] == [b"before", b"forward", b"back"]
        assert server.stop() == 0
    log = (tmp_path / "data.log").read_text()
    assert "Traceback" not in log and len(re.findall("clock", log)) >= 2, log


async def _publish(client: Client, payload: bytes) -> int:
    """Its offset."""
    async with client.producer(TOPIC) as producer:
        return (await (await producer.send(payload))).offset


async def _until(true: Callable[[], bool]) -> None:
    while not await asyncio.to_thread(true):
        await asyncio.sleep(0.2)


def _metric(server: SulinaProcess, name: str) -> float:
    with urllib.request.urlopen(f"{server.http_url}/metrics", timeout=30) as answer:
        found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.M)
    assert found is not None
    return float(found[1])
