"""What ``EtcdStore`` makes of one real etcd that is down, frozen, cut off, compacted, restored."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from sulina.errors import StorageFull, Unavailable, UnknownOutcome
from sulina.metadata.etcd import EtcdSettings, EtcdStore
from sulina.metadata.etcd.members import EtcdMembers
from sulina.metadata.etcd.server import EtcdServers
from sulina.metadata.etcd.settings import EtcdEndpoint
from sulina.metadata.lease import keep
from sulina.metadata.store import Compacted, EventKind
from sulina.runtime.real_clock import RealClock
from tests.broker.proxy import Proxy
from tests.metadata.harness import take
from tests.support.etcd import etcd_servers, free_ports

CLOCK = RealClock()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[EtcdServers]:
    """An etcd for one test, not started yet."""
    servers = etcd_servers(tmp_path / "etcd")
    yield servers
    servers.kill()


@pytest.fixture
async def direct(
    shared_etcd: EtcdServers, request: pytest.FixtureRequest
) -> AsyncIterator[EtcdStore]:
    """A store on the shared etcd, with a root of its own."""
    settings = replace(shared_etcd.settings, root=f"/{request.node.name}")
    store = await EtcdStore.open(settings, CLOCK)
    yield store
    await store.close()


@pytest.fixture
async def proxy(shared_etcd: EtcdServers) -> AsyncIterator[Proxy]:
    async with Proxy(shared_etcd.settings.endpoints[0].port) as proxy:
        yield proxy


@pytest.fixture
async def remote(proxy: Proxy, request: pytest.FixtureRequest) -> AsyncIterator[EtcdStore]:
    """A store that sees the same keys as ``direct``, through the proxy."""
    port = int(proxy.url.rpartition(":")[2])
    settings = EtcdSettings(
        (EtcdEndpoint("127.0.0.1", port),), root=f"/{request.node.name}", idle_seconds=1.0
    )
    store = await EtcdStore.open(settings, CLOCK)
    yield store
    await store.close()


async def test_a_store_is_made_without_a_server_and_works_once_there_is_one(
    own: EtcdServers,
) -> None:
    store = await EtcdStore.open(replace(own.settings, call_seconds=0.2), CLOCK)
    with pytest.raises(Unavailable, match=r"no etcd at 127\.0\.0\.1.*is etcd running"):
        await store.get("/a")
    watch = asyncio.create_task(take(store.watch("/", from_revision=1), 1))
    await own.start()
    patient = await EtcdStore.open(own.settings, CLOCK)
    await patient.put("/a", b"1")
    [event] = await watch
    assert event.value == b"1"
    await patient.close()
    await store.close()


async def test_a_write_that_was_never_sent_is_retriable() -> None:
    nowhere = EtcdSettings(
        tuple(EtcdEndpoint("127.0.0.1", port) for port in free_ports(2)), call_seconds=0.2
    )
    store = await EtcdStore.open(nowhere, CLOCK)
    with pytest.raises(Unavailable):
        await store.put("/a", b"1")
    with pytest.raises(Unavailable):
        await store.grant(5)
    await store.close()


async def test_a_write_without_an_answer_has_an_unknown_outcome(
    proxy: Proxy, remote: EtcdStore, direct: EtcdStore
) -> None:
    await remote.put("/a", b"1")
    proxy.hold_answers()
    with pytest.raises(UnknownOutcome, match="read back"):
        await remote.put("/a", b"2")
    item = await direct.get("/a")
    assert item is not None
    assert item.value == b"2"  # here, it did happen
    proxy.cut()
    assert await remote.get("/a") == item


async def test_a_frozen_server_is_an_unknown_outcome_for_writes_only(own: EtcdServers) -> None:
    await own.start()
    [member] = own.members.values()
    settings = replace(own.settings, request_seconds=0.5, call_seconds=1.0)
    store = await EtcdStore.open(settings, CLOCK)
    member.freeze()
    with pytest.raises(UnknownOutcome):
        await store.delete("/a")
    with pytest.raises(Unavailable):
        await store.get("/a")
    with pytest.raises(Unavailable):  # a lease nobody hears of runs out by itself
        await store.grant(5)
    member.thaw()
    patient = await EtcdStore.open(own.settings, CLOCK)
    assert await patient.get("/a") is None
    await patient.close()
    await store.close()


async def test_a_watch_that_was_cut_off_tells_everything_that_happened_meanwhile(
    proxy: Proxy, remote: EtcdStore, direct: EtcdStore
) -> None:
    first = await direct.put("/w", b"0")
    watch = remote.watch("/w", from_revision=first)
    await take(watch, 1)
    for number in range(1, 20):
        if number == 5:
            proxy.cut_and_refuse()
        if number == 15:
            proxy.allow()
        await direct.put("/w", b"%d" % number)
    assert [int(event.value) for event in await take(watch, 19)] == list(range(1, 20))


async def test_a_watch_on_a_connection_that_went_silent_dials_again(
    proxy: Proxy, remote: EtcdStore, direct: EtcdStore
) -> None:
    first = await direct.put("/w", b"0")
    watch = remote.watch("/w", from_revision=first)
    await take(watch, 1)
    proxy.hold_answers()  # for ever, on the connections that there are
    await direct.put("/w", b"1")
    coming = asyncio.create_task(take(watch, 1))
    dialled = proxy.accepted
    while proxy.accepted == dialled:
        await asyncio.sleep(0.05)
    proxy.cut()
    [event] = await coming
    assert event.value == b"1"


async def test_what_was_compacted_while_a_watch_was_cut_off_is_said_to_be_gone(
    proxy: Proxy, remote: EtcdStore, direct: EtcdStore
) -> None:
    first = await direct.put("/w", b"0")
    watch = remote.watch("/w", from_revision=first)
    await take(watch, 1)
    proxy.cut_and_refuse()
    await direct.put("/w", b"1")
    await direct.put("/w", b"2")
    last = await direct.put("/w", b"3")
    await direct.compact(last)
    proxy.allow()
    with pytest.raises(Compacted) as caught:
        await take(watch, 1)
    assert caught.value.revision == last
    listing = await remote.range("/w")
    again = remote.watch("/w", from_revision=listing.revision + 1)
    await direct.put("/w", b"4")
    [event] = await take(again, 1)
    assert event.value == b"4"


async def test_a_deletion_that_etcd_forgot_by_its_own_compaction_is_never_passed_over(
    own: EtcdServers,
) -> None:
    await own.start()
    store = await EtcdStore.open(own.settings, CLOCK)
    created = await store.put("/a", b"")
    await store.delete("/a")
    await store.put("/b", b"")
    # Somebody else compacts at the deletion: etcd has lost it, and still takes a watch from there.
    members = EtcdMembers(own.settings, CLOCK)
    request = json.dumps({"revision": str(created + 1), "physical": True})
    await members.ask(own.settings.endpoints[0], "/kv/compaction", request)
    await members.close()
    with pytest.raises(Compacted) as caught:
        await take(store.watch("/", from_revision=created + 1), 1)
    assert caught.value.revision == created + 2
    [event] = await take(store.watch("/", from_revision=created + 2), 1)
    assert event.key == "/b"
    await store.close()


async def test_a_holder_cut_off_knows_of_the_loss_before_the_keys_go(
    proxy: Proxy, remote: EtcdStore, direct: EtcdStore
) -> None:
    lease = await remote.grant(3)
    revision = await remote.put("/member", b"", lease=lease.id)
    keeping = asyncio.create_task(keep(lease, CLOCK))
    proxy.hold_answers()
    [event] = await take(direct.watch("/member", from_revision=revision + 1), 1)
    assert not lease.alive()
    assert event.kind is EventKind.DELETE
    await asyncio.wait_for(keeping, 20)
    proxy.cut()
    assert await lease.keep_alive() is False


async def test_a_kept_lease_lives_longer_than_its_time(direct: EtcdStore) -> None:
    lease = await direct.grant(6)
    revision = await direct.put("/member", b"", lease=lease.id)
    keeping = asyncio.create_task(keep(lease, CLOCK))
    await asyncio.sleep(7.5)
    assert lease.alive()
    await direct.revoke_lease(lease.id)  # somebody else ends it
    await asyncio.wait_for(keeping, 20)
    assert not lease.alive()
    [event] = await take(direct.watch("/member", from_revision=revision + 1), 1)
    assert event.kind is EventKind.DELETE


async def test_a_store_restored_from_a_backup_is_not_believed(
    own: EtcdServers, tmp_path: Path
) -> None:
    await own.start()
    store = await EtcdStore.open(replace(own.settings, call_seconds=1.0), CLOCK)
    first = await store.put("/a", b"old")
    own.kill()
    shutil.copytree(tmp_path / "etcd", tmp_path / "backup")
    await own.start()
    watch = store.watch("/a", from_revision=first)
    await take(watch, 1)
    for _ in range(3):
        await store.put("/a", b"new")
    await take(watch, 3)
    own.kill()
    shutil.rmtree(tmp_path / "etcd")
    shutil.copytree(tmp_path / "backup", tmp_path / "etcd")
    await own.start()
    with pytest.raises(Unavailable, match="went back from revision"):
        await store.get("/a")
    with pytest.raises(Unavailable, match="went back from revision"):
        await take(watch, 1)
    with pytest.raises(UnknownOutcome, match="went back from revision"):
        await store.put("/a", b"newer")
    await store.close()
    restarted = await EtcdStore.open(own.settings, CLOCK)
    assert await restarted.get("/a") is not None
    await restarted.close()


async def fill_up(store: EtcdStore) -> None:
    for _ in range(100):
        await store.put("/a", bytes(50_000))


async def test_an_etcd_without_space_refuses_writes_and_answers_reads(tmp_path: Path) -> None:
    servers = etcd_servers(tmp_path / "etcd", flags=["--quota-backend-bytes=200000"])
    try:
        await servers.start()
        store = await EtcdStore.open(servers.settings, CLOCK)
        with pytest.raises(UnknownOutcome, match="no space left: compact"):
            await fill_up(store)
        with pytest.raises(StorageFull, match="no space left: compact"):
            await store.grant(5)
        assert await store.get("/a") is not None
        await store.close()
    finally:
        servers.kill()


async def test_an_endpoint_of_another_cluster_is_not_believed(
    own: EtcdServers, shared_etcd: EtcdServers
) -> None:
    await own.start()
    both = replace(
        own.settings,
        endpoints=(*own.settings.endpoints, *shared_etcd.settings.endpoints),
        call_seconds=1.0,
    )
    store = await EtcdStore.open(both, CLOCK)
    assert await store.get("/a") is None
    own.kill()
    with pytest.raises(Unavailable):
        await store.get("/a")
    await store.close()
