"""What a caller sees of a fault: the same of the stores and of the model that the simulation uses.

Every store has one attempt for each request here, as the model has.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum, auto
from hashlib import sha1
from random import Random

import pytest

from localstack.emulators.server import EmulatorServer
from sulina.errors import AlreadyExists, NotFound, Refused, Unavailable
from sulina.objects.opening import open_store
from sulina.objects.redis_scripts import COMMIT, DELETE
from sulina.objects.store import ObjectSettings, ObjectStore
from sulina.objects.tikv import methods
from sulina.runtime.real_clock import RealClock
from tests.objects.chunks import chunks_of, some_bytes
from tests.objects.conftest import azure_url, redis_url, s3_url, send_each_script
from tests.objects.tikv_clocks import QuickClock
from tests.objects.tikv_cluster import Fault as TikvFault
from tests.objects.tikv_cluster import Request, TikvCluster
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.network import SimEndpoint, SimNetwork
from tests.simulation.objects import ObjectsService, SimObjects
from tests.support.faulty_http import FaultyHttp
from tests.support.faulty_proxy import Fault as ProxyFault
from tests.support.faulty_proxy import Seen
from tests.support.faulty_redis import FaultyRedis

DATA = some_bytes(1000)
_ONCE = ObjectSettings(attempts=1)
_LAST_IN_REDIS = tuple(sha1(text.encode()).hexdigest() for text in (COMMIT, DELETE))
"""The scripts by which a change is done; those before them only prepare it."""
_IN_PARTS = ObjectSettings(attempts=1, part_bytes=400)


class Harm(Enum):
    """What becomes of requests until ``heal``."""

    REFUSED = auto()
    """The store is too busy, and does nothing."""
    LOST = auto()
    """What changes something is done, but its answer is lost."""


@dataclass(frozen=True, slots=True)
class Scene:
    """A store, and how to harm its requests."""

    store: ObjectStore
    harm: Callable[[Harm], None]
    heal: Callable[[], None]


async def what_is_refused_is_not_done(scene: Scene) -> None:
    scene.harm(Harm.REFUSED)
    with pytest.raises(Unavailable):
        await scene.store.put("a", chunks_of(DATA))
    scene.heal()
    assert await scene.store.info("a") is None

    await scene.store.put("a", chunks_of(DATA))
    scene.harm(Harm.REFUSED)
    for reading in (scene.store.get("a", 0, 1), scene.store.tail("a", 1)):
        with pytest.raises(Unavailable):
            await reading
    with pytest.raises(Unavailable):
        await scene.store.delete("a")
    scene.heal()
    assert await scene.store.get("a", 0, len(DATA)) == DATA


async def an_object_whose_answer_was_lost_is_there_and_whole(scene: Scene) -> None:
    scene.harm(Harm.LOST)
    with pytest.raises(Unavailable):
        await scene.store.put("a", chunks_of(DATA))
    scene.heal()
    assert await scene.store.tail("a", 10) == (DATA[-10:], len(DATA))
    assert await scene.store.get("a", 0, len(DATA)) == DATA
    with pytest.raises(AlreadyExists):
        await scene.store.put("a", chunks_of(DATA))


async def an_upload_that_is_cut_off_leaves_nothing(scene: Scene) -> None:
    async def cut_off() -> AsyncIterator[bytes]:
        yield DATA[:-1]
        scene.harm(Harm.REFUSED)
        yield DATA[-1:]

    with pytest.raises(Unavailable):
        await scene.store.put("a", cut_off())
    scene.heal()
    assert await scene.store.info("a") is None
    assert await scene.store.list("") == []
    await scene.store.put("a", chunks_of(DATA))
    assert await scene.store.get("a", 0, len(DATA)) == DATA


async def a_deletion_whose_answer_was_lost_is_done(scene: Scene) -> None:
    await scene.store.put("a", chunks_of(DATA))
    scene.harm(Harm.LOST)
    with pytest.raises(Unavailable):
        await scene.store.delete("a")
    scene.heal()
    with pytest.raises(NotFound):
        await scene.store.get("a", 0, 1)
    await scene.store.delete("a")
    await scene.store.put("a", chunks_of(DATA))


async def a_taken_name_stays_what_it_was(scene: Scene) -> None:
    await scene.store.put("a", chunks_of(DATA))
    with pytest.raises(AlreadyExists):
        await scene.store.put("a", chunks_of(b"other"))
    assert await scene.store.get("a", 0, len(DATA)) == DATA
    with pytest.raises(Refused):
        await scene.store.get("a", 0, len(DATA) + 1)


PROMISES = [
    what_is_refused_is_not_done,
    an_object_whose_answer_was_lost_is_there_and_whole,
    an_upload_that_is_cut_off_leaves_nothing,
    a_deletion_whose_answer_was_lost_is_done,
    a_taken_name_stays_what_it_was,
]
promised = pytest.mark.parametrize("promise", PROMISES, ids=lambda each: each.__name__)
Promise = Callable[[Scene], Awaitable[None]]


def settings_for(promise: Promise, kind: str) -> ObjectSettings:
    """Small parts where uploads are cut off, unless the store takes no small ones."""
    cut_off = promise is an_upload_that_is_cut_off_leaves_nothing
    return _IN_PARTS if cut_off and kind != "seaweedfs" else _ONCE


@promised
def test_the_model_of_the_simulation(promise: Promise) -> None:
    loop = SimLoop()
    service = ObjectsService(Random(1), lambda key, data: None, put_if_absent=True)

    def harm(harm: Harm) -> None:
        service.errors, service.lost = float(harm is Harm.REFUSED), float(harm is Harm.LOST)

    async def main() -> None:
        server, machine = SimEndpoint("objects"), SimMachine(loop, "client")
        server.up(SimMachine(loop, "objects"), service)
        network = SimNetwork(loop, Random(2), 0.001)
        store = SimObjects(network, machine, server, SimClock(loop))
        await promise(Scene(store, harm, service.heal))

    try:
        loop.run_until_complete(main())
    finally:
        loop.finish()


@promised
@pytest.mark.parametrize("kind", ["seaweedfs", "azurite", "redis"])
async def test_stores_behind_a_proxy(
    promise: Promise,
    kind: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server: EmulatorServer = request.getfixturevalue(kind)
    prefix = f"promises/{promise.__name__}"
    if kind == "redis":
        url = redis_url(server, prefix)
        proxies: type[FaultyHttp | FaultyRedis] = FaultyRedis
    else:
        place = azure_url if kind == "azurite" else s3_url
        url, proxies = place(server, monkeypatch, prefix), FaultyHttp
    async with proxies(server.port) as proxy:

        def harm(harm: Harm) -> None:
            def choose(seen: Seen) -> ProxyFault | None:
                if harm is Harm.REFUSED:
                    return ProxyFault.BUSY
                done = kind != "redis" or seen.path.startswith(_LAST_IN_REDIS)
                return ProxyFault.LOST if done else None

            proxy.choose = choose

        near = url.replace(f":{server.port}", f":{proxy.port}")
        settings = settings_for(promise, kind)
        async with open_store(near, RealClock(), random.Random(1), settings=settings) as store:
            await send_each_script(store)
            await promise(Scene(store, harm, proxy.heal))


@promised
async def test_tikv(promise: Promise, tikv_cluster: TikvCluster) -> None:
    def harm(harm: Harm) -> None:
        def choose(request: Request) -> TikvFault | None:
            if harm is Harm.REFUSED:
                return TikvFault.BUSY
            # What is not committed is not done.
            return TikvFault.LOST if request.path == methods.COMMIT else None

        tikv_cluster.choose = choose

    url = f"tikv://{tikv_cluster.address}/promises"
    settings = settings_for(promise, "tikv")
    async with open_store(url, QuickClock(), random.Random(1), settings=settings) as store:
        await promise(Scene(store, harm, tikv_cluster.heal))
