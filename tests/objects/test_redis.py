"""What is special to Redis and to files, and chunks of any size that become parts of one size."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis import Redis

from localstack.emulators.redis import running_redis
from localstack.emulators.server import EmulatorServer
from sulina.errors import CorruptEntry, Refused, StorageFull, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.parts import in_parts
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


async def test_what_redis_refuses_is_told_with_the_remedy(
    own: EmulatorServer,
) -> None:
    with Redis(port=own.port) as plain:
        plain.config_set("maxmemory", "1kb")
        async with opened(own.port) as store:
            with pytest.raises(StorageFull, match="raise its maxmemory"):
                await store.put("a", chunks_of(DATA))
        plain.config_set("maxmemory", "0")
        plain.config_set("min-replicas-to-write", "1")
        async with opened(own.port) as store:
            with pytest.raises(Unavailable, match=r"4 attempts: Redis is not ready \(NOREPL"):
                await store.put("a", chunks_of(DATA))
        plain.config_set("min-replicas-to-write", "0")
        plain.config_set("requirepass", "secret")

        for where in ("", ":wrong@"):
            async with opened(own.port, where) as store:
                with pytest.raises(Refused, match="put them into the URL"):
                    await store.put("a", chunks_of(DATA))
        async with opened(own.port, ":secret@") as store:
            await store.put("a", chunks_of(DATA))


@given(st.lists(st.binary(max_size=20)), st.integers(1, 16))
async def test_parts_are_the_same_bytes_and_all_but_the_last_are_full(
    chunks: list[bytes], part_bytes: int
) -> None:
    async def source() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    parts = [part async for part in in_parts(source(), part_bytes)]

    assert b"".join(parts) == b"".join(chunks)
    assert all(len(part) == part_bytes for part in parts[:-1])
    assert len(parts[-1]) <= part_bytes
    assert parts == [b""] or parts[-1]


async def test_in_a_folder_what_a_crash_left_is_no_object_and_can_be_cleaned(
    tmp_path: Path,
) -> None:
    async with open_store(f"file://{tmp_path}", RealClock(), random.Random(1)) as store:
        await store.put("topic/a", chunks_of(b"whole"))
        for name in ("topic/.0123.uploading", "topic/deep/.4567.uploading", ".89.uploading"):
            path = tmp_path / name
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(b"half")
            os.utime(path, (1, 1))
        (tmp_path / "topic/.fresh.uploading").write_bytes(b"under way")

        assert [each.key for each in await store.list("")] == ["topic/a"]
        assert await store.abort_stale_uploads("topic/", 3600) == 2
        assert await store.abort_stale_uploads("topic/", 3600) == 0
        assert (tmp_path / "topic/.fresh.uploading").exists()
        assert (tmp_path / ".89.uploading").exists()
        assert await store.abort_stale_uploads("", 3600) == 1


async def test_a_folder_s_listing_goes_by_whole_keys_and_not_by_folders(tmp_path: Path) -> None:
    keys = ["a-b/1", "a/1", "a/b/1", "a/b-c", "ab", "a0", "a.b", "ü/1", "z"]
    async with open_store(f"file://{tmp_path}", RealClock(), random.Random(1)) as store:
        for key in keys:
            await store.put(key, chunks_of(b"x"))

        everything = [each.key for each in await store.list("")]
        assert everything == sorted(keys)
        for number, key in enumerate(everything):
            assert [each.key for each in await store.list("", after=key)] == (
                everything[number + 1 :]
            )
        assert [each.key for each in await store.list("a")] == [
            key for key in everything if key.startswith("a")
        ]


async def test_when_the_last_object_goes_its_folders_go_too(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/o", RealClock(), random.Random(1)) as store:
        await store.put("a/b/c", chunks_of(b"x"))
        await store.put("a/d", chunks_of(b"x"))

        await store.delete("a/b/c")
        assert not (tmp_path / "o/a/b").exists()
        await store.delete("a/d")
        assert (tmp_path / "o").exists() and not (tmp_path / "o/a").exists()
