"""A stock producer and a stock consumer that work without a break, while a test does its worst."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

from tests.danube.stock import Stock

_PAUSE = 0.03
_PATIENCE = 60.0
_REST_SECONDS = 40.0


@dataclass(frozen=True)
class LoadReport:
    """What the application saw."""

    sent: int
    """Messages whose ``send`` returned."""
    received: int
    repeated: int
    missing: list[str]
    """Sent, and not received."""
    errors: list[str]
    """Of ``send`` and ``ack``."""
    pauses: dict[str, float]
    """The longest of each kind, in seconds."""


class StockLoad:
    """One producer and one consumer of a topic of its own. Use as ``async with``."""

    def __init__(self, stock: Stock, url: str, topic: str, kind: str = "EXCLUSIVE") -> None:
        self._stock = stock
        self._url = url
        self.topic = topic
        self._kind = kind
        self._number = 0

    async def __aenter__(self) -> StockLoad:
        client = await self._stock.client(self._url)
        producer = await client.producer(self.topic)
        consumer = await client.consumer(self.topic, self._kind)
        self._number = await self._stock.do(
            "load", producer=producer.number, consumer=consumer.number, pause=_PAUSE
        )
        await self.flows()
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    async def report(self) -> LoadReport:
        return LoadReport(**await self._stock.do("load_report", load=self._number))

    async def flows(self) -> LoadReport:
        """Wait until messages that are sent from now on arrive."""
        before = now = await self.report()
        end = time.monotonic() + _PATIENCE
        while now.sent < before.sent + 3 or now.received < before.sent + 2:
            assert time.monotonic() < end, f"messages do not flow: {now}"
            await asyncio.sleep(0.05)
            now = await self.report()
        return now

    async def end(self) -> LoadReport:
        """Stop sending, and wait for the rest."""
        return LoadReport(
            **await self._stock.do("load_end", load=self._number, seconds=_REST_SECONDS)
        )
