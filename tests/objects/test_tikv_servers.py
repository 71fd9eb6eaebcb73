"""The TiKV cluster of ``SULINA_TIKV`` while its servers are stopped and started: nothing lost.

``SULINA_TIKV_DISTURB`` is a command that harms one of the servers and brings it back. It is called
with 1, 2, 3 and so on, ``SULINA_TIKV_DISTURBANCES`` times (default: 5).
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import shlex
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import pytest

from sulina.errors import AlreadyExists, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.objects.tikv.keys import Layout
from sulina.objects.tikv.links import Links
from sulina.objects.tikv.placement import Placement
from sulina.objects.tikv.regions import Regions
from sulina.objects.tikv.transactions import Cluster
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of, some_bytes
from tests.objects.conftest import tikv_members

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_SIZES = (100, 700_000, 2_500_000)
"""In one transaction, of one chunk and of several, and in parts."""
_SETTINGS = ObjectSettings(part_bytes=1 << 20, page_keys=7)
_WRITERS = 3
_KEEP = 40
"""Objects that a writer has at a time."""
_LOCKED_SECONDS = 6.0
"""Longer than a lock is held."""


@pytest.fixture
def disturb() -> list[str]:
    """The command that harms a server."""
    found = os.environ.get("SULINA_TIKV_DISTURB")
    if not found:
        pytest.skip(
            "set SULINA_TIKV_DISTURB to a command that stops and starts a server of the cluster"
        )
    return shlex.split(found)


@pytest.fixture
def place() -> str:
    """A prefix of this test alone."""
    return f"servers-{uuid.uuid4()}"


def opened(place: str) -> AbstractAsyncContextManager[ObjectStore]:
    url = f"tikv://{tikv_members()}/{place}"
    return open_store(url, RealClock(), random.Random(uuid.uuid4().int), settings=_SETTINGS)


async def test_no_object_is_lost_torn_or_left_over_while_servers_are_stopped_and_started(
    place: str, disturb: list[str]
) -> None:
    over = asyncio.Event()
    writers = [_Writer(number, place) for number in range(_WRITERS)]
    async with asyncio.TaskGroup() as running:
        for writer in writers:
            running.create_task(writer.run(over))
        try:
            await _disturb(disturb)
        finally:
            over.set()
    for writer in writers:
        _log.info("%s", writer)

    there = {key: body for writer in writers for key, body in writer.bodies.items()}
    async with opened(place) as store:
        assert [each.key for each in await store.list("", limit=10_000)] == sorted(there)
        for key, (size, seed) in there.items():
            assert await store.get(key, 0, size) == some_bytes(size, seed), key

        await asyncio.sleep(_LOCKED_SECONDS)
        await store.abort_stale_uploads("", 0)
        chunks = sum(-(-size // (256 << 10)) for size, _ in there.values())
        assert await _keys(place) == len(there) + chunks

        for key in there:
            await store.delete(key)
        assert await _keys(place) == 0


class _Writer:
    """Puts, reads, lists and deletes objects of its own, and knows what must be there."""

    def __init__(self, number: int, place: str) -> None:
        self._number = number
        self._place = place
        self._chance = random.Random(number)
        self.made = 0
        self.failed = 0
        """Calls that gave up, and were made again."""
        self.bodies: dict[str, tuple[int, int]] = {}
        """Size and seed of each object that was put and not deleted."""

    def __repr__(self) -> str:
        return f"writer {self._number}: {self.made} objects, {self.failed} calls were made again"

    async def run(self, over: asyncio.Event) -> None:
        async with opened(self._place) as store:
            while not over.is_set():
                await self._turn(store)

    async def _turn(self, store: ObjectStore) -> None:
        self.made += 1
        key, size = f"{self._number}/{self.made:06}", self._chance.choice(_SIZES)
        await self._put(store, key, some_bytes(size, self.made))
        self.bodies[key] = size, self.made

        key = self._chance.choice(list(self.bodies))
        size, seed = self.bodies[key]
        found = await self._ask(lambda: store.get(key, size // 3, size))
        assert found == some_bytes(size, seed)[size // 3 :]
        listed = await self._ask(lambda: store.list(f"{self._number}/", limit=10_000))
        assert [each.key for each in listed] == list(self.bodies)
        if len(self.bodies) > _KEEP or self._chance.random() < 1 / 4:
            await self._ask(lambda: store.delete(key))
            del self.bodies[key]
            assert await self._ask(lambda: store.info(key)) is None

    async def _ask(self, attempt: Callable[[], Awaitable[_T]]) -> _T:
        """The answer, as soon as there is one."""
        while True:
            try:
                return await attempt()
            except Unavailable:
                self.failed += 1

    async def _put(self, store: ObjectStore, key: str, body: bytes) -> None:
        unsure = False
        while True:
            try:
                await store.put(key, chunks_of(body))
            except Unavailable:
                self.failed, unsure = self.failed + 1, True
                continue
            except AlreadyExists:
                assert unsure, f"{key} was there before anyone put it"
            return


async def _disturb(command: list[str]) -> None:
    for number in range(1, int(os.environ.get("SULINA_TIKV_DISTURBANCES", "5")) + 1):
        called = await asyncio.create_subprocess_exec(*command, str(number))
        assert await called.wait() == 0, f"{shlex.join(command)} {number} failed"


async def _keys(place: str) -> int:
    """How many keys there are below the prefix."""
    links, clock, chance = Links(None, 30), RealClock(), random.Random(1)
    placement = Placement(tikv_members().split(","), links, clock, chance)
    cluster = Cluster(placement, Regions(placement, links, clock, chance), clock)
    try:
        snapshot = await cluster.snapshot()
        return len(await snapshot.scan(*Layout(place).everything(), 1 << 20, keys_only=True))
    finally:
        await links.close()
