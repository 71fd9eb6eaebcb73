"""TiKV behind a network that fails, and answers that regions moved: nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager

import pytest

from sulina.errors import AlreadyExists, NotFound, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.objects.tikv import methods
from sulina.objects.tikv.keys import Layout
from tests.objects.chunks import chunks_of, some_bytes
from tests.objects.tikv_clocks import QuickClock
from tests.objects.tikv_cluster import AT_PD, Fault, Request, TikvCluster

SMALL = some_bytes(100)
LARGE = some_bytes(2500)
"""Three parts."""
_SETTINGS = ObjectSettings(part_bytes=1000, page_keys=7, attempts=4, deadline_seconds=60)
_seeds = itertools.count()
_LOCKED_SECONDS = 30
"""Longer than a lock is held."""


def opened(
    cluster: TikvCluster, clock: QuickClock | None = None
) -> AbstractAsyncContextManager[ObjectStore]:
    url = f"tikv://{cluster.address}/faults"
    chance = random.Random(next(_seeds))  # two processes never draw the same upload id
    return open_store(url, clock or QuickClock(), chance, settings=_SETTINGS)


@pytest.fixture
async def store(tikv_cluster: TikvCluster) -> AsyncIterator[ObjectStore]:
    async with opened(tikv_cluster) as made:
        yield made


@pytest.fixture
async def other(tikv_cluster: TikvCluster) -> AsyncIterator[ObjectStore]:
    """The same store, of another process."""
    async with opened(tikv_cluster) as made:
        yield made


async def requests_of_put(cluster: TikvCluster, store: ObjectStore, data: bytes) -> int:
    """How many requests a put takes if nothing fails, and the regions are known."""
    for key in ("well/1", "well/2"):
        cluster.seen.clear()
        await store.put(key, chunks_of(data))
    return len(cluster.seen)


async def test_whichever_request_of_a_put_fails_in_whichever_way_the_object_is_made_once(
    tikv_cluster: TikvCluster, store: ObjectStore, other: ObjectStore
) -> None:
    requests = await requests_of_put(tikv_cluster, store, SMALL)
    for fault, number in itertools.product(Fault, range(requests)):
        key = f"{fault.name}/{number}"
        spoil_one(tikv_cluster, number, fault)
        made = await store.put(key, chunks_of(SMALL))
        tikv_cluster.heal()

        found = await other.info(key)
        assert found is not None and (found.size, found.etag) == (made.size, made.etag)
        assert await other.get(key, 0, len(SMALL)) == SMALL
    assert len(await other.list("")) == 2 + requests * len(Fault)


async def test_whichever_request_of_a_put_in_parts_fails_the_object_is_made_once(
    tikv_cluster: TikvCluster, store: ObjectStore, other: ObjectStore
) -> None:
    requests = await requests_of_put(tikv_cluster, store, LARGE)
    faults = itertools.cycle(Fault)
    for number in range(requests):
        spoil_one(tikv_cluster, number, next(faults))
        await store.put(f"{number}", chunks_of(LARGE))
        tikv_cluster.heal()
        assert await other.get(f"{number}", 0, len(LARGE)) == LARGE
    assert len(await other.list("")) == 2 + requests
    assert await other.abort_stale_uploads("", 0) == 0


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["one transaction", "parts"])
async def test_a_commit_of_which_no_answer_ever_comes_is_found_by_the_next_attempt(
    tikv_cluster: TikvCluster, store: ObjectStore, data: bytes
) -> None:
    at, lost = Layout("faults").object("a"), 0

    def choose(request: Request) -> Fault | None:
        nonlocal lost
        if request.path != methods.COMMIT or at not in request.keys:
            return None
        lost += 1
        return Fault.LOST

    tikv_cluster.choose = choose
    assert (await store.put("a", chunks_of(data))).size == len(data)
    assert lost > 1
    tikv_cluster.heal()
    assert await store.get("a", 0, len(data)) == data
    with pytest.raises(AlreadyExists):
        await store.put("a", chunks_of(data))


@pytest.mark.parametrize("data", [SMALL, LARGE], ids=["one transaction", "parts"])
async def test_whichever_request_is_the_last_of_a_process_nothing_is_half_made(
    tikv_cluster: TikvCluster, store: ObjectStore, data: bytes
) -> None:
    requests = await requests_of_put(tikv_cluster, store, data)
    for number in range(requests):
        key, clock, ended = f"{number}", QuickClock(), asyncio.Event()
        count = itertools.count()
        async with opened(tikv_cluster, clock) as dying:
            await dying.info("well/1")  # knows the region

            def choose(
                request: Request,
                number: int = number,
                count: itertools.count[int] = count,
                clock: QuickClock = clock,
                ended: asyncio.Event = ended,
            ) -> Fault | None:
                if (at := next(count)) < number:
                    return None
                clock.ended = True
                ended.set()
                return Fault.LOST if at == number else Fault.CUT

            tikv_cluster.choose = choose
            putting = asyncio.create_task(dying.put(key, chunks_of(data)))
            await asyncio.wait(
                [putting, asyncio.create_task(ended.wait())], return_when=asyncio.FIRST_COMPLETED
            )
            while not putting.done():
                putting.cancel()
                await asyncio.sleep(0)
        tikv_cluster.heal()
        tikv_cluster.pass_seconds(_LOCKED_SECONDS)

        there = await store.info(key)
        await store.abort_stale_uploads("", 0)
        assert await store.info(key) == there
        if there is None:
            await store.put(key, chunks_of(data))
        else:
            with pytest.raises(AlreadyExists):
                await store.put(key, chunks_of(data))
        assert await store.get(key, 0, len(data)) == data

    keys = tikv_cluster.live_keys()
    each = 1 + -(-len(data) // 1000)
    assert len(keys) == each * (2 + requests)  # no chunk without an object, no upload's record


async def test_who_was_faster_while_we_tried_again_keeps_the_name(
    tikv_cluster: TikvCluster, store: ObjectStore, other: ObjectStore
) -> None:
    for number, data in enumerate((SMALL, LARGE)):
        key, theirs = f"contested/{number}", some_bytes(len(data), 99)

        async def faster(request: Request, key: str = key, theirs: bytes = theirs) -> None:
            if request.path == methods.PREWRITE:
                tikv_cluster.heal()
                await other.put(key, chunks_of(theirs))
                tikv_cluster.spoil(Fault.CUT)

        tikv_cluster.meanwhile = faster
        with pytest.raises(AlreadyExists, match=f"the object {key} already exists"):
            await store.put(key, chunks_of(data))
        tikv_cluster.heal()

        assert await other.get(key, 0, len(data)) == theirs
        assert await other.abort_stale_uploads("", 0) == 0


@pytest.mark.parametrize("seed", range(2))
async def test_in_a_storm_one_of_all_who_race_for_a_name_wins(
    tikv_cluster: TikvCluster, store: ObjectStore, other: ObjectStore, seed: int
) -> None:
    chance = random.Random(seed)
    for turn in range(4):
        key, length = f"contested/{turn}", chance.choice((100, 2500))
        bodies = [some_bytes(length, number) for number in range(4)]
        storm(tikv_cluster, chance)
        outcomes = await asyncio.gather(
            *(
                (store if number % 2 else other).put(key, chunks_of(body))
                for number, body in enumerate(bodies)
            ),
            return_exceptions=True,
        )
        tikv_cluster.heal()
        tikv_cluster.pass_seconds(_LOCKED_SECONDS)

        failed = (AlreadyExists, Unavailable)
        assert all(isinstance(each, failed) for each in outcomes if isinstance(each, Exception))
        won = [n for n, each in enumerate(outcomes) if not isinstance(each, BaseException)]
        assert len(won) <= 1, outcomes
        there = await other.info(key)
        assert there is not None or not won
        if there is not None:
            assert there.size == length
            found = await other.get(key, 0, length)
            assert found in bodies and (not won or found == bodies[won[0]])
        else:
            assert not any(isinstance(each, AlreadyExists) for each in outcomes)


async def test_a_listing_has_no_gaps_or_repeats_while_regions_move_and_split(
    tikv_cluster: TikvCluster, store: ObjectStore
) -> None:
    chance = random.Random(5)
    keys = [f"many/{number:02}" for number in range(30)]
    for key in keys:
        await store.put(key, chunks_of(key.encode()))

    for _ in range(10):
        tikv_cluster.split(Layout("faults").object(chance.choice(keys)))
        storm(tikv_cluster, chance)
        assert [each.key for each in await store.list("")] == keys
        assert [each.key for each in await store.list("many/1", after="many/13")] == keys[14:20]
        tikv_cluster.heal()
    assert len(tikv_cluster.regions) > 3


async def test_reads_and_deletions_survive_any_failure(
    tikv_cluster: TikvCluster, store: ObjectStore, other: ObjectStore
) -> None:
    for fault in Fault:
        await other.put("a", chunks_of(LARGE))
        for number in range(4):
            spoil_one(tikv_cluster, number, fault)
            assert await store.get("a", 900, 2100) == LARGE[900:2100]
            spoil_one(tikv_cluster, number, fault)
            assert await store.tail("a", 100) == (LARGE[-100:], len(LARGE))
        for number in range(6):
            spoil_one(tikv_cluster, number, fault)
            await store.delete("a")
            tikv_cluster.heal()
            with pytest.raises(NotFound):
                await other.get("a", 0, 1)
            await other.put("a", chunks_of(LARGE))
        await other.delete("a")
        assert tikv_cluster.live_keys() == []


def spoil_one(cluster: TikvCluster, number: int, fault: Fault) -> None:
    """The request of this number fails, or the next one if it goes to PD, which has fewer ways."""
    count, spoilt = itertools.count(), False

    def choose(request: Request) -> Fault | None:
        nonlocal spoilt
        if next(count) < number or spoilt or (request.to_pd and fault not in AT_PD):
            return None
        spoilt = True
        return fault

    cluster.choose = choose


def storm(cluster: TikvCluster, chance: random.Random) -> None:
    """One request of eight fails from now on, and some locks expire early."""

    def choose(request: Request) -> Fault | None:
        cluster.pass_seconds(0.1)
        if chance.random() > 1 / 8:
            return None
        return chance.choice(AT_PD if request.to_pd else list(Fault))

    cluster.choose = choose
