"""What is special to objects in Redis: it loses connections, memory, and sometimes parts."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from redis import Redis

from localstack.emulators.redis import running_redis
from localstack.emulators.server import EmulatorServer
from sulina.errors import CorruptEntry, Refused, StorageFull, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of, some_bytes
from tests.support.wire import Wire

PART = 64 << 10
DATA = some_bytes(3 * PART + 10)


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EmulatorServer]:
    """A Redis for one test, which may spoil it."""
    try:
        server = running_redis(tmp_path / "redis")
    except Unavailable as error:
        pytest.skip(str(error))
    with server:
        yield server


def opened(port: int, where: str = "") -> AbstractAsyncContextManager[ObjectStore]:
    settings = ObjectSettings(part_bytes=PART, attempts=4)
    url = f"redis://{where}127.0.0.1:{port}/0/tests/special"
    return open_store(url, RealClock(), random.Random(1), settings=settings)


async def test_a_put_survives_lost_connections(own: EmulatorServer) -> None:
    async with Wire(own.port) as wire, opened(wire.port) as store, opened(own.port) as direct:

        async def cut_between() -> AsyncIterator[bytes]:
            for start in range(0, len(DATA), PART):
                yield DATA[start : start + PART]
                wire.cut()
                wire.heal()

        await store.put("a", cut_between())
        assert await direct.get("a", 0, len(DATA)) == DATA
        assert await direct.abort_stale_uploads("", 0) == 0


async def test_a_redis_that_forgot_everything_in_between_makes_no_torn_object(
    own: EmulatorServer,
) -> None:
    async def forget_between() -> AsyncIterator[bytes]:
        yield DATA
        own.kill()
        own.start()
        yield DATA

    async with opened(own.port) as store:
        with pytest.raises(Unavailable, match="the upload of a was aborted meanwhile: upload it"):
            await store.put("a", forget_between())
        assert await store.info("a") is None
        await store.put("a", chunks_of(DATA))
        assert await store.tail("a", 10) == (DATA[-10:], len(DATA))
    with Redis(port=own.port) as plain:
        assert len(plain.keys("*part:*")) == 4


async def test_an_object_with_a_lost_part_is_damaged_and_not_absent(own: EmulatorServer) -> None:
    async with opened(own.port) as store:
        await store.put("a", chunks_of(DATA))
        with Redis(port=own.port) as plain:
            [second] = plain.keys("*part:*:1")
            plain.delete(second)

        with pytest.raises(CorruptEntry, match=r"parts of a are missing .* noeviction"):
            await store.get("a", 0, len(DATA))
        assert await store.get("a", 0, PART) == DATA[:PART]
        assert await store.info("a") is not None
        await store.delete("a")
        with Redis(port=own.port) as plain:
            assert plain.keys("*") == []


async def test_what_was_never_finished_is_taken_back(own: EmulatorServer) -> None:
    async with opened(own.port) as store:
        with Redis(port=own.port) as plain:
            for key in ("topic/a", "other/b"):
                token = ("0123456789abcdef" * 2)[: 32 - len(key)] + key.replace("/", "x")
                plain.zadd("{tests/special}uploads", {token + key: 1})
                plain.set(f"{{tests/special}}part:{token}:0", b"half")

        assert await store.abort_stale_uploads("topic/", 60) == 1
        assert await store.abort_stale_uploads("topic/", 60) == 0
        with Redis(port=own.port) as plain:
            assert len(plain.keys("*part:*")) == 1


async def test_no_memory_and_wrong_passwords_are_told_with_the_remedy(
    own: EmulatorServer,
) -> None:
    with Redis(port=own.port) as plain:
        plain.config_set("maxmemory", "1kb")
        async with opened(own.port) as store:
            with pytest.raises(StorageFull, match="raise its maxmemory"):
                await store.put("a", chunks_of(DATA))
        plain.config_set("maxmemory", "0")
        plain.config_set("requirepass", "secret")

        for where in ("", ":wrong@"):
            async with opened(own.port, where) as store:
                with pytest.raises(Refused, match="put them into the URL"):
                    await store.put("a", chunks_of(DATA))
        async with opened(own.port, ":secret@") as store:
            await store.put("a", chunks_of(DATA))
