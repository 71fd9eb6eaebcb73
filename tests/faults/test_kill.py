"""Kill the broker process at random moments, under load, again and again."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path

import pytest

from tests.faults.process import BrokerProcess, broker_process
from tests.faults.seeds import number_from_environment, seeded
from tests.faults.workload import Workload, workload

KILLS = number_from_environment("SULINA_KILLS", 200)


async def _let_live(broker: BrokerProcess, load: Workload, rng: random.Random) -> None:
    """Wait for the moment of the next kill: while the process still starts, while clients come
    back to it, or, most of the time, while they are all at work."""
    moment = rng.random()
    if moment < 0.1:
        await asyncio.sleep(rng.uniform(0, 0.1))
        return
    await broker.ready()
    if moment < 0.3:
        await load.check_cursors(broker.url)
    elif moment > 0.4:
        await load.some_stored()
    await asyncio.sleep(rng.uniform(0, 0.15))


@pytest.mark.slow
@pytest.mark.timeout(300 + 3 * KILLS)
async def test_nothing_acknowledged_is_lost_repeated_or_reordered_however_often_it_is_killed(
    tmp_path: Path,
) -> None:
    with seeded() as rng:
        async with broker_process(tmp_path) as broker:
            await broker.start()
            async with workload(broker.url, rng, operation_timeout=60.0) as load:
                for _ in range(KILLS):
                    broker.kill()
                    await broker.begin()
                    await _let_live(broker, load, rng)
                await load.stop_sending()
                # What was forgotten comes again on new connections only.
                broker.kill()
                await broker.start()
                await load.settle()
                for described in (await load.check_cursors(broker.url)).values():
                    assert described["backlog"] == 0
                broker.kill()
                await broker.start()
                await load.check_logs()
                await load.check_cursors(broker.url)
