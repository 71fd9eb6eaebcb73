"""Stop ``sulina up`` as an operator does, with SIGTERM, while everybody is at work."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.seeds import number_from_environment, seeded
from tests.faults.workload import workload
from tests.support.server import SulinaProcess

STOPS = number_from_environment("SULINA_STOPS", 3)


@pytest.mark.slow
@pytest.mark.timeout(120 + 5 * STOPS)
async def test_a_stop_under_load_keeps_everything_and_clients_go_on_by_themselves(
    tmp_path: Path,
) -> None:
    with seeded() as rng, SulinaProcess(tmp_path / "data") as server:
        async with workload(server.url, rng, operation_timeout=60.0) as load:
            for _ in range(STOPS):
                await load.some_stored()
                await asyncio.sleep(rng.uniform(0, 0.5))
                assert await asyncio.to_thread(server.stop) == 0
                await asyncio.to_thread(server.start)
                await load.check_cursors(server.url)
            await load.stop_sending()
            await asyncio.to_thread(server.restart)  # what was forgotten comes again
            await load.settle()
            await asyncio.to_thread(server.restart)
            await load.check_logs()
            for described in (await load.check_cursors(server.url)).values():
                assert described["backlog"] == 0, "a clean stop stores every cursor"
        assert "Traceback" not in server.log()
