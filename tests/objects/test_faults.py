"""Object stores behind a network that fails: nothing half-made, nothing lost, nothing twice."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from localstack.emulators.gcs import make_bucket as make_gcs_bucket
from localstack.emulators.server import EmulatorServer
from sulina.errors import AlreadyExists, NotFound, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of, some_bytes
from tests.objects.conftest import BUCKET, azure_url, redis_url, s3_url, send_each_script
from tests.support.faulty_http import FaultyHttp
from tests.support.faulty_proxy import Fault, FaultyProxy, Seen
from tests.support.faulty_redis import FaultyRedis

SIZE = (5 << 20) + 1000
PARTS = {"s3": 5 << 20, "gs": 3 << 20, "az": 3 << 20, "re": 3 << 20}
"""S3 takes no smaller ones."""
DATA = some_bytes(SIZE)
DEADLINE = 60.0
_numbers = itertools.count()


class QuickClock(RealClock):
    """Keeps the pauses between attempts, and makes them short; deadlines stay as they are."""

    __slots__ = ("pauses",)

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        if seconds < DEADLINE:
            self.pauses.append(seconds)
            seconds /= 20
        await super().sleep(seconds)


@dataclass(frozen=True, slots=True)
class Scene:
    """A store behind the network, and the same store without it."""

    proxy: FaultyProxy
    store: ObjectStore
    direct: ObjectStore


@pytest.fixture(params=["seaweedfs", "gcs", "azurite", "redis"])
def server(request: pytest.FixtureRequest) -> EmulatorServer:
    found: EmulatorServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def clock() -> QuickClock:
    return QuickClock()


@pytest.fixture
async def scene(
    server: EmulatorServer, clock: QuickClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    async with _scene(server, clock, monkeypatch) as made:
        yield made


@pytest.fixture
async def s3_scene(
    seaweedfs: EmulatorServer, clock: QuickClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    async with _scene(seaweedfs, clock, monkeypatch) as made:
        yield made


@asynccontextmanager
async def _scene(
    server: EmulatorServer, clock: QuickClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    prefix = f"faults/{next(_numbers)}"
    if "gcs" in server.folder.name:
        make_gcs_bucket(server, BUCKET)
        url = f"gs://{BUCKET}/{prefix}?endpoint={server.url}"
    elif "azurite" in server.folder.name:
        url = azure_url(server, monkeypatch, prefix)
    elif "redis" in server.folder.name:
        url = redis_url(server, prefix)
    else:
        url = s3_url(server, monkeypatch, prefix)
    settings = ObjectSettings(
        part_bytes=PARTS[url[:2]], concurrency=1, attempts=4, deadline_seconds=DEADLINE
    )
    chance = random.Random(7)
    proxies = FaultyRedis if url.startswith("redis") else FaultyHttp
    async with proxies(server.port) as proxy:
        near = url.replace(f":{server.port}", f":{proxy.port}")
        async with (
            open_store(near, clock, chance, settings=settings) as store,
            open_store(url, RealClock(), chance, settings=settings) as direct,
        ):
            await send_each_script(direct)
            yield Scene(proxy, store, direct)


async def test_whichever_request_of_a_put_fails_once_the_object_is_made_once(scene: Scene) -> None:
    await scene.store.put("well", chunks_of(DATA))
    requests = len(scene.proxy.seen)

    for fault in (Fault.BUSY, Fault.CUT, Fault.LOST):
        for number in range(requests):
            key = f"{fault.name}/{number}"
            scene.proxy.spoil(*[None] * number, fault)
            made = await scene.store.put(key, chunks_of(DATA))
            scene.proxy.heal()

            found = await scene.direct.info(key)
            assert found is not None and (found.size, found.etag) == (made.size, made.etag)
            assert await scene.direct.get(key, 0, len(DATA)) == DATA
    assert len(await scene.direct.list("")) == 1 + 3 * requests


async def test_whichever_request_of_a_small_put_fails_once_it_is_made_once(scene: Scene) -> None:
    await scene.store.put("well", chunks_of(b"hello"))
    requests = len(scene.proxy.seen)

    for fault in (Fault.BUSY, Fault.CUT, Fault.LOST):
        for number in range(requests):
            key = f"{fault.name}/{number}"
            scene.proxy.spoil(*[None] * number, fault)
            assert (await scene.store.put(key, chunks_of(b"hello"))).size == 5
            scene.proxy.heal()
            assert await scene.direct.get(key, 0, 5) == b"hello"
    assert len(await scene.direct.list("")) == 1 + 3 * requests


async def test_whichever_request_of_a_put_fails_for_good_nothing_is_half_made(
    scene: Scene,
) -> None:
    await scene.store.put("well", chunks_of(DATA))
    requests = len(scene.proxy.seen)

    for fault in (Fault.BUSY, Fault.CUT, Fault.LOST):
        for number in range(requests):
            key = f"{fault.name}/{number}"
            scene.proxy.choose = _from(number, fault)
            with pytest.raises(Unavailable, match="failed after 4 attempts"):
                await scene.store.put(key, chunks_of(DATA))
            scene.proxy.heal()

            if await scene.direct.info(key) is None:
                await scene.direct.put(key, chunks_of(DATA))
            else:
                assert fault is Fault.LOST and number == requests - 1
            assert await scene.direct.get(key, 0, len(DATA)) == DATA

    await scene.direct.abort_stale_uploads("", 0)  # those that could not even be taken back
    assert await scene.direct.abort_stale_uploads("", 0) == 0
    assert len(await scene.direct.list("")) == 1 + 3 * requests


async def test_who_was_faster_while_we_tried_again_keeps_the_name(scene: Scene) -> None:
    for number, length in enumerate((10, len(DATA))):
        key = f"contested/{number}"
        other = some_bytes(length, 99)

        async def faster(seen: Seen, key: str = key, other: bytes = other) -> None:
            scene.proxy.meanwhile = None
            await scene.direct.put(key, chunks_of(other))

        scene.proxy.meanwhile = faster
        scene.proxy.spoil(Fault.CUT)
        with pytest.raises(AlreadyExists, match=f"the object {key} already exists"):
            await scene.store.put(key, chunks_of(DATA[:length]))
        scene.proxy.heal()

        assert await scene.direct.get(key, 0, length) == other
        assert await scene.direct.abort_stale_uploads("", 0) == 0


async def test_reads_and_deletions_survive_any_failure(scene: Scene) -> None:
    await scene.direct.put("a", chunks_of(DATA))
    for fault in (Fault.BUSY, Fault.CUT, Fault.LOST, Fault.TORN):
        scene.proxy.spoil(fault, fault)
        assert await scene.store.get("a", 1000, 5000) == DATA[1000:5000]
        scene.proxy.spoil(fault, fault)
        assert await scene.store.tail("a", 100) == (DATA[-100:], len(DATA))
        scene.proxy.spoil(fault, fault)
        assert [each.key for each in await scene.store.list("")] == ["a"]
        scene.proxy.spoil(Fault.CUT if fault is Fault.TORN else fault)  # HEAD has no body
        found = await scene.store.info("a")
        assert found is not None and found.size == len(DATA)

    scene.proxy.spoil(Fault.LOST, Fault.BUSY)
    await scene.store.delete("a")
    assert await scene.direct.info("a") is None
    with pytest.raises(NotFound):
        await scene.store.get("a", 0, 1)


async def test_pauses_between_attempts_grow_and_differ(s3_scene: Scene, clock: QuickClock) -> None:
    s3_scene.proxy.choose = lambda seen: Fault.BUSY

    for _ in range(3):
        with pytest.raises(Unavailable, match="attempts: the store answered 503"):
            await s3_scene.store.info("a")

    assert len(s3_scene.proxy.seen) == 12
    assert len(clock.pauses) == 9
    for number, pause in enumerate(clock.pauses):
        longest = 0.05 * 2 ** (number % 3)
        assert longest / 2 <= pause <= longest
    assert len(set(clock.pauses)) == 9


async def test_a_server_that_says_nothing_is_given_up(
    s3_scene: Scene, seaweedfs: EmulatorServer
) -> None:
    s3_scene.proxy.choose = lambda seen: Fault.SILENT
    impatient = ObjectSettings(attempts=2, deadline_seconds=0.2)
    url = f"s3://{BUCKET}/silent?endpoint=http://127.0.0.1:{s3_scene.proxy.port}"

    async with open_store(url, RealClock(), random.Random(1), settings=impatient) as store:
        with pytest.raises(Unavailable, match=r"failed after 2 attempts"):
            await store.put("a", chunks_of(b"x"))


async def test_parts_are_asked_for_only_as_others_are_gone(
    s3_scene: Scene, seaweedfs: EmulatorServer
) -> None:
    part, parts, concurrency, most = PARTS["s3"], 9, 3, 0
    held = asyncio.Semaphore(1)

    async def one_at_a_time(seen: Seen) -> None:
        async with held:
            await asyncio.sleep(0)

    def gone() -> int:
        return sum("partNumber=" in seen.path for seen in s3_scene.proxy.done)

    async def counted() -> AsyncIterator[bytes]:
        nonlocal most
        for number in range(parts):
            most = max(most, number - gone())
            yield bytes(part)

    s3_scene.proxy.meanwhile = one_at_a_time
    settings = ObjectSettings(part_bytes=part, concurrency=concurrency)
    place = f"{BUCKET}/bounded/{next(_numbers)}"
    url = f"s3://{place}?endpoint=http://127.0.0.1:{s3_scene.proxy.port}"
    async with open_store(url, RealClock(), random.Random(1), settings=settings) as store:
        assert (await store.put("a", counted())).size == parts * part

    assert most <= concurrency + 2


async def test_uploads_that_nobody_finished_are_taken_back_and_no_others(
    s3_scene: Scene,
) -> None:
    # The answer to the first request is lost, and the upload it began is never heard of again.
    s3_scene.proxy.spoil(Fault.LOST)
    await s3_scene.store.put("topic/a", chunks_of(DATA))
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield DATA
        begun.set()
        await go_on.wait()

    putting = asyncio.create_task(s3_scene.store.put("other/b", slow()))
    await begun.wait()

    assert await s3_scene.direct.abort_stale_uploads("", 3600) == 0
    assert await s3_scene.direct.abort_stale_uploads("topic/", 0) == 1
    assert await s3_scene.direct.abort_stale_uploads("topic/", 0) == 0
    go_on.set()
    await putting
    assert await s3_scene.direct.get("topic/a", 0, 10) == DATA[:10]
    assert await s3_scene.direct.get("other/b", 0, 10) == DATA[:10]


async def test_an_upload_that_was_taken_back_too_early_says_so(s3_scene: Scene) -> None:
    async def slow() -> AsyncIterator[bytes]:
        yield DATA
        yield DATA
        assert await s3_scene.direct.abort_stale_uploads("", 0) == 1

    with pytest.raises(Unavailable, match="its upload was aborted, meanwhile: upload it again"):
        await s3_scene.store.put("a", slow())
    assert await s3_scene.direct.info("a") is None


@pytest.mark.parametrize("seed", range(2))
async def test_in_a_storm_every_object_is_whole_or_not_there(scene: Scene, seed: int) -> None:
    chance = random.Random(seed)
    bodies = {
        f"object/{number}": some_bytes(chance.choice((10, 10_000, SIZE)), number)
        for number in range(8)
    }
    scene.proxy.choose = lambda seen: (
        chance.choice((Fault.BUSY, Fault.CUT, Fault.LOST)) if chance.random() < 0.3 else None
    )

    outcomes = await asyncio.gather(
        *(scene.store.put(key, chunks_of(body)) for key, body in bodies.items()),
        return_exceptions=True,
    )
    scene.proxy.heal()

    there = {each.key: each.size for each in await scene.direct.list("")}
    for (key, body), outcome in zip(bodies.items(), outcomes, strict=True):
        if isinstance(outcome, BaseException):
            assert isinstance(outcome, Unavailable), outcome
        else:
            assert key in there
        if key in there:
            assert await scene.direct.get(key, 0, there[key]) == body


def _from(number: int, fault: Fault) -> Callable[[Seen], Fault | None]:
    """Everything from a request on gets this."""
    count = itertools.count()
    return lambda seen: fault if next(count) >= number else None
