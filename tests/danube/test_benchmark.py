"""A small run of the Danube door's benchmark."""

from __future__ import annotations

import asyncio
import json

import pytest
from rich.console import Console

from benchmarks.danube_door import CALLERS, DanubeRound, LoadResult, load_command, table
from benchmarks.stats import summarize
from tests.danube.broker import OneBroker
from tests.danube.environment import stock_python


def loaded(rate: float, milliseconds: float) -> LoadResult:
    return LoadResult(rate, summarize([milliseconds]), cpu_us=300.0)


@pytest.mark.parametrize("how", ["stock", "raw"])
async def test_the_load_sends_and_tells_how_long_each_took(broker: OneBroker, how: str) -> None:
    place = broker.url.partition("://")[2]
    python = await asyncio.to_thread(stock_python)
    command = load_command(python, place, how, callers=4, seconds=0.1, size=100)
    running = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    said, _ = await running.communicate()
    found = json.loads(said)
    assert found["answered"] == len(found["ms"]) >= 4
    assert found["seconds"] >= 0.1 and min(found["ms"]) > 0


def test_ratios_are_to_the_bare_server_and_one_sync() -> None:
    one = DanubeRound(
        fdatasync_ms=1.0,
        bare_one=loaded(1000, 1.0),
        door_one=loaded(300, 3.0),
        bare_many=loaded(5000, 10),
        door_many=loaded(4500, 11),
        stock_many=loaded(2500, 20),
    )
    assert (one.ack_ratio, one.rate_ratio) == (1.5, 0.9)
    console = Console(width=140, record=True, file=None, quiet=False)
    with console.capture() as captured:
        console.print(table([one]))
    text = captured.get()
    assert "1.50 x with an fdatasync: met" in text
    assert "90% of the rate: met" in text
    assert f"stock producer, {CALLERS} sends at once" in text and "50% of the rate" in text
