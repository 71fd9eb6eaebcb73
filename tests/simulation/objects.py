"""The simulated object store: one machine that stores objects, its faults, and its clients.

Stored objects are kept. A fault may refuse a request, lose its answer, delay it, or damage the
bytes of an object before they are stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable
from random import Random
from typing import Any, TypeVar

from sulina.errors import AlreadyExists, NotFound, Refused, Unavailable, UnknownOutcome
from sulina.objects.store import ObjectInfo
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock
from tests.simulation.loop import SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork

_T = TypeVar("_T")
_SECONDS = 3.0

Changed = Callable[[str, bytes | None], None]
"""Called when an object is written or deleted (None)."""


class ObjectsService:
    """The service of the objects' machine. Without ``put_if_absent`` it overwrites objects."""

    def __init__(self, chance: Random, changed: Changed, *, put_if_absent: bool) -> None:
        self.objects: dict[str, bytes] = {}
        self.errors = 0.0
        """How often a request is refused."""
        self.lost = 0.0
        """How often it is done, but the answer is lost."""
        self.damage = 0.0
        """How often a put stores damaged bytes."""
        self.slow = 0.0
        """Seconds per request, on average."""
        self._chance = chance
        self._changed = changed
        self._put_if_absent = put_if_absent

    def heal(self) -> None:
        self.errors = self.lost = self.damage = self.slow = 0.0

    async def _before(self) -> None:
        if self.slow:
            await asyncio.sleep(self._chance.expovariate(1 / self.slow))
        if self._chance.random() < self.errors:
            raise Unavailable("503: slow down")

    def _after(self) -> None:
        if self._chance.random() < self.lost:
            raise Unavailable("the answer was lost")

    async def put(self, key: str, data: bytes) -> int:
        await self._before()
        if key in self.objects and self._put_if_absent:
            raise AlreadyExists(f"{key} exists")
        if self._chance.random() < self.damage:
            at = self._chance.randrange(len(data))
            data = data[:at] + bytes([data[at] ^ 1 << self._chance.randrange(8)]) + data[at + 1 :]
        self.objects[key] = data
        self._changed(key, data)
        self._after()
        return len(data)

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        await self._before()
        data = self._data(key)
        return data[max(0, len(data) - length) :], len(data)

    async def get(self, key: str, start: int, end: int) -> bytes:
        await self._before()
        data = self._data(key)
        if end > len(data):
            raise Refused("the object is shorter")
        return data[start:end]

    async def delete(self, key: str) -> None:
        await self._before()
        if self.objects.pop(key, None) is not None:
            self._changed(key, None)
        self._after()

    def _data(self, key: str) -> bytes:
        if key not in self.objects:
            raise NotFound(f"there is no {key}")
        return self.objects[key]


class SimObjects:
    """``ObjectStore`` of one process, over the network."""

    def __init__(
        self, network: SimNetwork, machine: SimMachine, server: SimEndpoint, clock: Clock
    ) -> None:
        self._network = network
        self._machine = machine
        self._server = server
        self._clock = clock
        self._connection: SimConnection | None = None

    async def _ask(self, work: Callable[[Any], Awaitable[_T]]) -> _T:
        if self._connection is None or not self._connection.open:
            self._connection = self._network.connect(self._machine, self._server)
        try:
            return await within(self._clock, _SECONDS, self._connection.request(work))
        except (TimeoutError, UnknownOutcome):
            raise Unavailable("the object store does not answer") from None

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        data = b"".join([chunk async for chunk in chunks])
        size = await self._ask(lambda service: service.put(key, data))
        return ObjectInfo(key, size, "")

    async def get(self, key: str, start: int, end: int) -> bytes:
        found: bytes = await self._ask(lambda service: service.get(key, start, end))
        return found

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        found: tuple[bytes, int] = await self._ask(lambda service: service.tail(key, length))
        return found

    async def info(self, key: str) -> ObjectInfo | None:
        try:
            _, size = await self.tail(key, 1)
        except NotFound:
            return None
        return ObjectInfo(key, size, "")

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        return []

    async def delete(self, key: str) -> None:
        await self._ask(lambda service: service.delete(key))

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return 0

    async def close(self) -> None:
        pass
