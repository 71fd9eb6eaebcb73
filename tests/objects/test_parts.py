"""Chunks of any size become parts of one size; files that nobody finished are no objects."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from sulina.objects.opening import open_store
from sulina.objects.parts import in_parts
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of


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
