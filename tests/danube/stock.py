"""Danube's stock client, unmodified and in a process of its own, as tests use it."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.environment import environment

_AGENT = Path(__file__).with_name("agent.py")
PATIENCE = 30.0
"""How long a message may take that must come."""
_LONGEST_LINE = 64 << 20


class StockError(Exception):
    """What the client told the application: the status' name, and the words."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


class Stock:
    """The process with the client in it. Use as ``async with``."""

    def __init__(self, python: Path) -> None:
        self._python = python
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Stock:
        self._process = await asyncio.create_subprocess_exec(
            self._python,
            _AGENT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST_LINE,
        )
        self._reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._process is not None and self._reading is not None
        self._process.kill()
        await self._process.wait()
        await self._reading

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        while line := await self._process.stdout.readline():
            outcome = json.loads(line)
            future = self._waiting.pop(outcome["number"])
            if future.done():
                continue
            if "error" in outcome:
                future.set_exception(StockError(outcome["code"], outcome["error"]))
            else:
                future.set_result(outcome["result"])
        for future in self._waiting.values():
            future.cancel()

    async def do(self, task: str, **arguments: Any) -> Any:
        """Let it do something; its outcome."""
        assert self._process is not None and self._process.stdin is not None
        number = next(self._numbers)
        future = self._waiting[number] = asyncio.get_running_loop().create_future()
        line = json.dumps({"number": number, "task": task, "arguments": arguments})
        self._process.stdin.write(line.encode() + b"\n")
        await self._process.stdin.drain()
        return await future

    async def client(self, url: str, *, ca: Path | None = None, token: str = "") -> StockClient:
        """``DanubeClientBuilder().service_url(url)...build()``"""
        number = await self.do("client", url=url, ca=str(ca or ""), token=token)
        return StockClient(self, number)


class StockClient:
    """A ``DanubeClient``."""

    def __init__(self, stock: Stock, number: int) -> None:
        self._stock = stock
        self._number = number

    async def register(self, subject: str, definition: str, kind: str = "JSON_SCHEMA") -> int:
        """A schema's id."""
        number = await self._stock.do(
            "register", client=self._number, subject=subject, kind=kind, definition=definition
        )
        return int(number)

    async def enforce(self, topic: str, subject: str) -> None:
        """Let a topic take only what is as its schema says."""
        await self._stock.do("enforce", client=self._number, topic=topic, subject=subject)

    async def producer(
        self,
        topic: str,
        name: str = "p",
        *,
        reliable: bool = True,
        partitions: int = 0,
        schema: tuple[Any, ...] = (),
    ) -> StockProducer:
        """One that is created. ``schema``: the builder's method to name one, and its arguments."""
        number = await self._stock.do(
            "producer",
            client=self._number,
            topic=topic,
            name=name,
            reliable=reliable,
            partitions=partitions,
            schema=list(schema),
        )
        return StockProducer(self._stock, number)

    async def consumer(
        self,
        topic: str,
        kind: str = "EXCLUSIVE",
        name: str = "c",
        *,
        subscription: str = "s",
        key_filters: tuple[str, ...] = (),
        receive: bool = True,
    ) -> StockConsumer:
        """One that has subscribed, and receives unless told not to."""
        number = await self._stock.do(
            "consumer",
            client=self._number,
            topic=topic,
            name=name,
            subscription=subscription,
            kind=kind,
            key_filters=list(key_filters),
        )
        consumer = StockConsumer(self._stock, number)
        if receive:
            await consumer.receive()
        return consumer


class StockProducer:
    """A ``Producer``."""

    def __init__(self, stock: Stock, number: int) -> None:
        self._stock = stock
        self.number = number

    async def send(
        self, payload: str, attributes: dict[str, str] | None = None, key: str | None = None
    ) -> int:
        """``send`` or ``send_with_key``."""
        number = await self._stock.do(
            "send", producer=self.number, payload=payload, attributes=attributes or {}, key=key
        )
        return int(number)

    async def send_all(self, payloads: list[str]) -> None:
        """All at once."""
        await self._stock.do("send_all", producer=self.number, payloads=payloads)

    async def close(self) -> None:
        await self._stock.do("close", thing=self.number)


@dataclass(frozen=True)
class Received:
    """A message as the application got it."""

    number: int
    payload: str
    attributes: dict[str, str]
    key: str | None
    topic: str
    offset: int
    producer: str
    publish_time: int
    schema: list[int]


class StockConsumer:
    """A ``Consumer``."""

    def __init__(self, stock: Stock, number: int) -> None:
        self._stock = stock
        self.number = number

    async def receive(self) -> None:
        """Open its streams."""
        await self._stock.do("receive", consumer=self.number)

    async def take(self, seconds: float = PATIENCE) -> Received:
        """The next message, not acknowledged."""
        found = await self.take_or_none(seconds)
        assert found is not None, "no message came"
        return found

    async def take_or_none(self, seconds: float) -> Received | None:
        """The next message, if one comes in this time."""
        found = await self._stock.do("take", consumer=self.number, seconds=seconds)
        return None if found is None else Received(**found)

    async def nothing(self, seconds: float = 0.3) -> bool:
        """Whether no message arrives for this long."""
        return await self.take_or_none(seconds) is None

    async def ack(self, message: Received) -> None:
        await self._stock.do("ack", consumer=self.number, message=message.number)

    async def nack(
        self, message: Received, delay_ms: int | None = None, reason: str | None = None
    ) -> None:
        await self._stock.do(
            "nack",
            consumer=self.number,
            message=message.number,
            delay_ms=delay_ms,
            reason=reason,
        )

    async def take_all(self, count: int) -> list[Received]:
        """So many messages, each acknowledged."""
        taken = []
        for _ in range(count):
            taken.append(await self.take())
            await self.ack(taken[-1])
        return taken

    async def close(self) -> None:
        await self._stock.do("close", thing=self.number)


async def flow(producer: StockProducer, consumer: StockConsumer, *payloads: str) -> None:
    """Wait for all of these; redelivered ones may arrive before them."""
    for payload in payloads:
        await producer.send(payload)
    missing = set(payloads)
    while missing:
        message = await consumer.take(60)
        await consumer.ack(message)
        missing.discard(message.payload)


def stock_python() -> Path:
    """The interpreter that has the stock client. Raises ``Unavailable`` with what pip said."""
    return environment("danube") / "python"
