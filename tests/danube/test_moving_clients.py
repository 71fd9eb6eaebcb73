"""How long a stopping broker goes on telling clients where their topics are."""

from __future__ import annotations

import asyncio

from broker_containers.doors.danube.moving_clients import clients_moved
from tests.metadata.manual_clock import ManualClock

QUIET = 6.0
MOST = 15.0


class Stopping:
    """The end of a broker, as its clients see it."""

    def __init__(self, attached: int = 1) -> None:
        self.clock = ManualClock()
        self.asked = self.clock.now() - 100
        self.others = True
        waiting = clients_moved(
            self.clock,
            lambda: self.asked,
            attached=attached,
            quiet_seconds=QUIET,
            seconds=MOST,
            others=lambda: self.others,
        )
        self._task = asyncio.create_task(waiting)

    async def ends_after(self, seconds: float, *, asking: bool = False) -> bool:
        """Whether it is over by then; ``asking``: a client asks all the time."""
        for _ in range(round(seconds * 10)):
            await self.clock.advance(0.1)
            if asking:
                self.asked = self.clock.now()
        return self._task.done()


async def test_without_clients_it_ends_at_once() -> None:
    assert await Stopping(attached=0).ends_after(0.1)


async def test_it_ends_once_clients_are_quiet() -> None:
    stopping = Stopping()
    assert not await stopping.ends_after(5, asking=True)
    assert not await stopping.ends_after(QUIET - 1)
    assert await stopping.ends_after(2)


async def test_a_client_that_only_asked_is_waited_for_as_well() -> None:
    stopping = Stopping(attached=0)
    stopping.asked = stopping.clock.now()
    assert not await stopping.ends_after(QUIET - 1)
    assert await stopping.ends_after(2)


async def test_clients_that_never_move_do_not_hold_it_up_for_long() -> None:
    stopping = Stopping()
    assert not await stopping.ends_after(MOST - 1, asking=True)
    assert await stopping.ends_after(2, asking=True)


async def test_it_ends_when_there_is_no_broker_to_send_clients_to() -> None:
    stopping = Stopping()
    assert not await stopping.ends_after(1)
    stopping.others = False
    assert await stopping.ends_after(1)
