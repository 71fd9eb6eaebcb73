"""Lose connections in all the ways there are while producers publish and consumers acknowledge."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.faults.flaky_proxy import FlakyProxy
from tests.faults.seeds import number_from_environment, seeded
from tests.faults.workload import workload
from tests.support.server import SulinaProcess

SECONDS = number_from_environment("SULINA_FLAKY_SECONDS", 8)


@pytest.mark.slow
@pytest.mark.timeout(120 + 3 * SECONDS)
async def test_nothing_is_lost_or_stored_twice_over_a_network_that_loses_connections(
    tmp_path: Path,
) -> None:
    with seeded() as rng, SulinaProcess(tmp_path / "data") as server:
        async with (
            FlakyProxy(server.port, rng) as proxy,
            # Pings are frequent, so that a stalled connection is given up within a second.
            workload(proxy.url, rng, operation_timeout=60.0, ping_interval=0.2) as load,
        ):
            end = asyncio.get_running_loop().time() + SECONDS
            while asyncio.get_running_loop().time() < end:
                await load.some_stored()
                await asyncio.sleep(rng.uniform(0, 1))
                await load.check_cursors(server.url)
            proxy.heal()
            await load.stop_sending()
            proxy.cut_all()  # what was forgotten comes again
            await load.settle()
            for described in (await load.check_cursors(server.url)).values():
                assert described["backlog"] == 0
            assert proxy.harmed
        assert "Traceback" not in server.log()
