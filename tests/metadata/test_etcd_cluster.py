"""A cluster of three real etcd members that are killed, frozen and restarted under load."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace

import pytest

from sulina.errors import Unavailable
from sulina.metadata.etcd import EtcdStore
from sulina.metadata.etcd.server import EtcdServers
from sulina.metadata.lease import keep
from sulina.runtime.real_clock import RealClock
from tests.metadata.chronicle import Chronicle
from tests.support.etcd import leader_of, running_etcd

SOME = 40
WRITERS, PAUSE = 4, 0.01


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdServers]:
    with running_etcd(tmp_path_factory.mktemp("three"), members=3) as servers:
        yield servers


@pytest.fixture
async def servers(three: EtcdServers) -> EtcdServers:
    """All members up, whatever the test before did to them."""
    for member in three.members.values():
        member.thaw()
    await three.start()
    return three


@pytest.fixture
async def store(servers: EtcdServers, request: pytest.FixtureRequest) -> AsyncIterator[EtcdStore]:
    settings = replace(servers.settings, root=f"/{request.node.name}", idle_seconds=2.0)
    store = await EtcdStore.open(settings, RealClock())
    yield store
    await store.close()


@pytest.mark.slow
async def test_the_loss_of_the_leader_loses_no_change_and_no_event(
    servers: EtcdServers, store: EtcdStore
) -> None:
    async with Chronicle(store).running(WRITERS, PAUSE) as chronicle:
        await chronicle.told(SOME)
        leader = await leader_of(servers)
        servers.members[leader].kill()
        await chronicle.told(SOME)
        await servers.start()
        await chronicle.told(SOME)


async def test_members_that_do_not_answer_are_named(servers: EtcdServers, store: EtcdStore) -> None:
    assert await store.silent_members() == []
    name, *_ = servers.members
    servers.members[name].freeze()
    try:
        while not (silent := await store.silent_members()):
            pass
    finally:
        servers.members[name].thaw()
    assert silent == [str(servers.settings.endpoints[0])]
    while await store.silent_members():
        pass


@pytest.mark.slow
async def test_a_frozen_member_is_left_and_may_come_back(
    servers: EtcdServers, store: EtcdStore
) -> None:
    async with Chronicle(store).running(WRITERS, PAUSE) as chronicle:
        for name in servers.members:  # one of them has the watch, and one leads
            await chronicle.told(SOME)
            servers.members[name].freeze()
            await chronicle.told(SOME)
            servers.members[name].thaw()
        await chronicle.told(SOME)


@pytest.mark.slow
async def test_a_restart_of_everything_is_survived(servers: EtcdServers, store: EtcdStore) -> None:
    async with Chronicle(store).running(WRITERS, PAUSE) as chronicle:
        await chronicle.told(SOME)
        servers.kill()
        await servers.start()
        await chronicle.told(SOME)


@pytest.mark.slow
async def test_a_kept_lease_outlives_the_leader(servers: EtcdServers, store: EtcdStore) -> None:
    lease = await store.grant(20)
    await store.put("/member", b"", lease=lease.id)
    keeping = asyncio.create_task(keep(lease, RealClock()))
    servers.members[await leader_of(servers)].kill()
    while not await lease_renewed(store, lease.id):
        await asyncio.sleep(0.1)
    assert lease.alive()
    assert await store.get("/member") is not None
    keeping.cancel()
    await servers.start()


async def lease_renewed(store: EtcdStore, lease: int) -> bool:
    try:
        return await store.renew_lease(lease)
    except Unavailable:
        return False


@pytest.mark.slow
async def test_without_a_majority_nothing_is_answered_and_nothing_hangs(
    servers: EtcdServers, store: EtcdStore
) -> None:
    await store.put("/a", b"1")
    first, *others = servers.members
    for name in others:
        servers.members[name].kill()
    lonely = await EtcdStore.open(replace(servers.settings_of(first), root="/x"), RealClock())
    answers = await asyncio.gather(store.get("/a"), lonely.get("/a"), return_exceptions=True)
    assert [type(answer) for answer in answers] == [Unavailable, Unavailable]
    await lonely.close()
    await servers.start()
    item = await store.get("/a")
    assert item is not None
    assert item.value == b"1"
