"""What every object store does, whatever it is made of."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from sulina.errors import AlreadyExists, NotFound, Refused
from tests.objects.chunks import chunks_of, some_bytes
from tests.objects.conftest import S3_KINDS, Opening

ODD_KEYS = (
    "plain",
    "with space/and+plus/and%25percent",
    "namespace=a b/topic=ü-ß/partition=0/00000000000000000001-00000000000000000002.parquet",
    "quotes'\"/ampersand&equals=question?hash#/semi;colon:at@",
    "日本語/😀/ключ",
    "tilde~star*brackets[]{}()/caret^pipe|comma,dollar$",
    "x" * 200 + "/" + "y" * 200,
)


async def test_an_object_reads_back_as_it_was_put(opening: Opening) -> None:
    data = some_bytes(100_000)
    async with opening() as store:
        made = await store.put("a/b", chunks_of(data, 999))

        assert made.size == len(data)
        assert await store.get("a/b", 0, len(data)) == data
        found = await store.info("a/b")
        assert found is not None
        assert (found.key, found.size, found.etag) == ("a/b", len(data), made.etag)
        assert found.modified_us > 0


async def test_objects_are_there_for_who_opens_the_store_again(opening: Opening) -> None:
    async with opening() as store:
        await store.put("a", chunks_of(b"hello"))
    async with opening() as store:
        assert await store.get("a", 0, 5) == b"hello"


async def test_a_name_is_given_once(opening: Opening) -> None:
    async with opening() as store:
        await store.put("a", chunks_of(b"first"))
        with pytest.raises(AlreadyExists, match="the object a already exists"):
            await store.put("a", chunks_of(b"second"))
        assert await store.get("a", 0, 5) == b"first"


async def test_of_all_who_race_for_a_name_one_wins(opening: Opening, kind: str) -> None:
    async with opening() as store:
        for turn in range(2 if kind == "seaweedfs" else 4):
            key = f"contested/{turn}"
            bodies = [some_bytes(2000, seed) for seed in range(8)]
            outcomes = await asyncio.gather(
                *(store.put(key, chunks_of(body)) for body in bodies), return_exceptions=True
            )
            won = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)]
            assert len(won) == 1, outcomes
            assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 7, outcomes
            assert await store.get(key, 0, 2000) == bodies[won[0]]


async def test_a_large_object_goes_up_in_parts(opening: Opening, small_parts: int) -> None:
    data = some_bytes(2 * small_parts + 12345)
    async with opening(part_bytes=small_parts) as store:
        made = await store.put("large", chunks_of(data, 300_001))

        assert made.size == len(data)
        found = await store.info("large")
        assert found is not None and (found.size, found.etag) == (made.size, made.etag)
        edge = small_parts
        assert await store.get("large", edge - 10, edge + 10) == data[edge - 10 : edge + 10]
        assert await store.get("large", 0, len(data)) == data
        with pytest.raises(AlreadyExists):
            await store.put("large", chunks_of(data))


async def test_of_two_large_objects_the_one_that_is_whole_first_wins(
    opening: Opening, small_parts: int
) -> None:
    first, second = (some_bytes(small_parts + 1, seed) for seed in range(2))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def waiting() -> AsyncIterator[bytes]:
        yield second
        begun.set()
        await go_on.wait()

    async with opening(part_bytes=small_parts) as store:
        late = asyncio.create_task(store.put("one", waiting()))
        await begun.wait()
        await store.put("one", chunks_of(first))
        go_on.set()
        with pytest.raises(AlreadyExists):
            await late

        assert await store.get("one", 0, small_parts + 1) == first
        assert await store.abort_stale_uploads("", 0) == 0


async def test_of_large_objects_made_at_once_one_wins(
    opening: Opening, small_parts: int, kind: str
) -> None:
    if kind in S3_KINDS:
        pytest.skip("unlike AWS, the emulators look first and make an object of parts then")
    bodies = [some_bytes(small_parts + 1, seed) for seed in range(3)]
    async with opening(part_bytes=small_parts) as store:
        outcomes = await asyncio.gather(
            *(store.put("one", chunks_of(body)) for body in bodies), return_exceptions=True
        )
        won = [n for n, outcome in enumerate(outcomes) if not isinstance(outcome, Exception)]
        assert len(won) == 1, outcomes
        assert sum(isinstance(outcome, AlreadyExists) for outcome in outcomes) == 2, outcomes
        assert await store.get("one", 0, small_parts + 1) == bodies[won[0]]


@pytest.mark.parametrize("whole_parts", [1, 2])
async def test_an_object_of_whole_parts_has_no_empty_one_at_its_end(
    opening: Opening, small_parts: int, whole_parts: int
) -> None:
    data = some_bytes(whole_parts * small_parts)
    async with opening(part_bytes=small_parts) as store:
        assert (await store.put("exact", chunks_of(data))).size == len(data)
        assert await store.tail("exact", 3) == (data[-3:], len(data))


async def test_an_object_may_have_no_bytes(opening: Opening) -> None:
    async with opening() as store:
        assert (await store.put("empty", chunks_of(b""))).size == 0

        assert await store.tail("empty", 10) == (b"", 0)
        assert await store.get("empty", 0, 0) == b""
        with pytest.raises(Refused, match="empty has only 0 bytes"):
            await store.get("empty", 0, 1)


async def test_any_range_can_be_read(opening: Opening) -> None:
    data = some_bytes(1000)
    async with opening() as store:
        await store.put("a", chunks_of(data))

        for start, end in ((0, 1), (0, 1000), (999, 1000), (123, 456), (500, 500)):
            assert await store.get("a", start, end) == data[start:end]


async def test_a_range_beyond_the_end_is_refused(opening: Opening) -> None:
    async with opening() as store:
        await store.put("a", chunks_of(b"0123456789"))

        for start, end in ((0, 11), (5, 100), (10, 11), (500, 600)):
            with pytest.raises(Refused, match=f"a has only 10 bytes: byte {end - 1}"):
                await store.get("a", start, end)
        with pytest.raises(Refused, match="7 to 3 is not a valid byte range"):
            await store.get("a", 7, 3)


async def test_the_tail_comes_with_the_size(opening: Opening) -> None:
    data = some_bytes(1000)
    async with opening() as store:
        await store.put("a", chunks_of(data))

        assert await store.tail("a", 10) == (data[-10:], 1000)
        assert await store.tail("a", 1000) == (data, 1000)
        assert await store.tail("a", 5000) == (data, 1000)


async def test_what_is_not_there_is_not_found(opening: Opening) -> None:
    async with opening() as store:
        assert await store.info("a/b") is None
        with pytest.raises(NotFound, match="the object a/b does not exist"):
            await store.get("a/b", 0, 1)
        with pytest.raises(NotFound, match="the object a/b does not exist"):
            await store.get("a/b", 0, 0)
        with pytest.raises(NotFound, match="the object a/b does not exist"):
            await store.tail("a/b", 1)


async def test_a_listing_is_in_order_and_page_by_page(opening: Opening) -> None:
    keys = [f"many/{number:03}" for number in range(25)]
    async with opening(page_keys=10) as store:
        for key in [*reversed(keys), "few/1", "many-more/1"]:
            await store.put(key, chunks_of(key.encode()))

        assert [each.key for each in await store.list("many/")] == keys
        assert [each.size for each in await store.list("many/")] == [len(key) for key in keys]
        assert [each.key for each in await store.list("many/", limit=12)] == keys[:12]
        assert [each.key for each in await store.list("many/", after=keys[7], limit=15)] == (
            keys[8:23]
        )
        assert [each.key for each in await store.list("many/01", after="many/015")] == keys[16:20]
        assert len(await store.list("")) == 27
        assert await store.list("many/", after=keys[-1]) == []
        assert await store.list("nothing/") == []
        assert [each.key for each in await store.list("few/1")] == ["few/1"]


async def test_a_listing_tells_what_info_tells(opening: Opening) -> None:
    async with opening() as store:
        await store.put("a", chunks_of(b"hello"))

        [listed], found = await store.list(""), await store.info("a")
        assert found is not None
        assert (listed.key, listed.size, listed.etag) == (found.key, found.size, found.etag)


async def test_what_is_deleted_is_gone_and_may_be_made_again(opening: Opening) -> None:
    async with opening() as store:
        await store.put("a/b", chunks_of(b"first"))
        await store.delete("a/b")
        await store.delete("a/b")
        await store.delete("never/was")

        assert await store.info("a/b") is None
        assert await store.list("") == []
        await store.put("a/b", chunks_of(b"again"))
        assert await store.get("a/b", 0, 5) == b"again"


async def test_keys_may_be_odd(opening: Opening) -> None:
    async with opening() as store:
        for key in ODD_KEYS:
            await store.put(key, chunks_of(key.encode()))

        for key in ODD_KEYS:
            assert await store.tail(key, 10_000) == (key.encode(), len(key.encode()))
            assert [each.key for each in await store.list(key)] == [key]
        assert sorted(each.key for each in await store.list("")) == sorted(ODD_KEYS)
        for key in ODD_KEYS:
            await store.delete(key)
        assert await store.list("") == []


async def test_keys_that_some_store_could_not_take_are_refused(opening: Opening) -> None:
    async with opening() as store:
        for key in ("", "/a", "a/", "a//b", "a/../b", "./a", "a\nb", "nul\0", "k" * 800):
            with pytest.raises(Refused, match="key"):
                await store.put(key, chunks_of(b"x"))


async def test_when_the_source_fails_nothing_is_made(opening: Opening, small_parts: int) -> None:
    async def failing(length: int) -> AsyncIterator[bytes]:
        yield bytes(length)
        raise ValueError("the disk is gone")

    async with opening(part_bytes=small_parts) as store:
        for length in (10, 2 * small_parts + 10):
            with pytest.raises(ValueError, match="the disk is gone"):
                await store.put("a", failing(length))

        assert await store.info("a") is None
        assert await store.list("") == []
        assert await store.abort_stale_uploads("", 0) == 0
        await store.put("a", chunks_of(b"x"))


async def test_when_the_caller_gives_up_nothing_is_made(opening: Opening, small_parts: int) -> None:
    begun = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        yield bytes(2 * small_parts)
        begun.set()
        await asyncio.Event().wait()

    async with opening(part_bytes=small_parts) as store:
        putting = asyncio.create_task(store.put("a", endless()))
        await begun.wait()
        putting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await putting

        assert await store.info("a") is None
        assert await store.abort_stale_uploads("", 0) == 0
