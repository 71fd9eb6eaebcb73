"""The parts that a test of the client puts together."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import sulina
from sulina.runtime.seam import Runtime
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign
from tests.client.memory_network import MemoryNetwork
from tests.client.scripted_broker import ScriptedBroker
from tests.metadata.manual_clock import ManualClock

_T = TypeVar("_T")
_TURNS = 2000


class Bench:
    """A broker, a network and a clock, and clients that use them."""

    def __init__(self, broker: ScriptedBroker, network: MemoryNetwork, clock: ManualClock) -> None:
        self.broker = broker
        self.network = network
        self.clock = clock
        self.runtime = Runtime(clock, network, random.Random(7))
        self._clients: list[sulina.Client] = []

    async def client(self, url: str = "sulina://broker:6655", **options: Any) -> sulina.Client:
        client = sulina.connect(url, runtime=self.runtime, **options)
        self._clients.append(client)
        return await client.open()

    async def eventually(self, work: Coroutine[Any, Any, _T], seconds: float = 200.0) -> _T:
        """The outcome of work that needs time to pass."""
        task = asyncio.ensure_future(work)
        passed = 0.0
        while not task.done() and passed < seconds:
            await self.clock.advance(0.25)
            passed += 0.25
        if not task.done():
            task.cancel()
            raise AssertionError(f"not done after {seconds} s")
        return await task

    async def close(self) -> None:
        self.broker.silent.clear()
        self.broker.publishing = lambda number: None
        self.network.reachable = True
        for client in self._clients:
            try:
                await self.eventually(client.close())
            except sulina.SulinaError:
                continue  # what a test provoked, it has looked at


async def until(true: Callable[[], bool]) -> None:
    """Let the loop turn until something is so."""
    for _ in range(_TURNS):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it did not happen")


def frame(base: int, payloads: list[bytes], **options: Any) -> bytes:
    """A frame as a broker delivers it."""
    data = bytearray(encode_frame(Origin("someone"), base, payloads, 1_000_000, **options))
    assign(data, base, 1)
    return bytes(data)
