"""A broker that can't reach the metadata store sends its clients to others that can."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from broker_containers.cluster.isolation import IsolationMonitor
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop


class Parts:
    """What the monitor asks and tells, in one object; ``told`` has the order."""

    broker = "one"

    def __init__(self, lease_comes_back: bool) -> None:
        self.lease: object | None = None
        self.away = ""
        self.told: list[str] = []
        self._comes_back = lease_comes_back

    def living(self) -> list[str]:
        return ["one", "two"]

    async def admin(self, broker: str, operation: str, arguments: dict[str, Any]) -> object:
        if self._comes_back:
            self.lease = object()
        return {"in_touch": True}

    def send_away(self, reason: str) -> None:
        self.away = reason
        self.told.append("clients")

    async def suspend(self, reason: str) -> None:
        self.told.append("topics")

    def resume(self) -> None:
        self.told.append("resume")


@pytest.mark.parametrize(
    ("lease_comes_back", "told"), [(False, ["clients", "topics", "resume"]), (True, [])]
)
def test_clients_are_sent_away_only_while_the_store_is_out_of_reach(
    lease_comes_back: bool, told: list[str]
) -> None:
    loop = SimLoop()
    parts = Parts(lease_comes_back)
    part: Any = parts

    async def watch() -> None:
        clock = SimClock(loop)
        monitor = IsolationMonitor(clock, part, part, part, part, parts)
        running = asyncio.create_task(monitor.run())
        await asyncio.sleep(5)
        assert bool(parts.away) is not lease_comes_back
        parts.lease = object()
        await asyncio.sleep(5)
        running.cancel()

    loop.run_until_complete(watch())
    loop.finish()
    assert (parts.told, parts.away) == (told, "")
