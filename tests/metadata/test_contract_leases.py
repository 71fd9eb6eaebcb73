"""The contract of every metadata store: leases, whose loss the holder knows first."""

from __future__ import annotations

import asyncio

import pytest

from sulina.errors import NotFound, Refused
from sulina.metadata import cas
from sulina.metadata.store import EventKind, Put
from tests.metadata.harness import Harness, take


async def test_a_key_goes_when_its_lease_runs_out(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(harness.ttl)
    revision = await store.put("/member", b"here", lease=lease.id)
    item = await store.get("/member")
    assert item is not None
    assert item.lease == lease.id
    await harness.pass_time(lease.ttl + 1)
    [event] = await take(store.watch("/member", from_revision=revision + 1), 1)
    assert event.kind is EventKind.DELETE
    assert await store.get("/member") is None


async def test_all_keys_of_a_lease_go_in_one_revision(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(harness.ttl)
    for key in ("/m/c", "/m/a", "/m/b"):
        last = await store.put(key, b"", lease=lease.id)
    await harness.pass_time(lease.ttl + 1)
    events = await take(store.watch("/m/", from_revision=last + 1), 3)
    assert sorted(event.key for event in events) == ["/m/a", "/m/b", "/m/c"]
    assert {event.mod_revision for event in events} == {last + 1}


async def test_the_holder_knows_of_the_loss_before_the_store_forgets(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(10)
    await store.put("/member", b"", lease=lease.id)
    assert lease.alive()
    await harness.pass_time(lease.ttl * 0.95)
    assert not lease.alive()
    assert await store.get("/member") is not None


async def test_a_lease_that_is_renewed_goes_on(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(5)
    await store.put("/member", b"", lease=lease.id)
    for _ in range(4):
        await harness.pass_time(lease.ttl / 2)
        assert await lease.keep_alive() is True
    assert lease.alive()
    assert await store.get("/member") is not None


async def test_a_lost_lease_is_never_renewed(harness: Harness) -> None:
    lease = await harness.store.grant(5)
    await harness.pass_time(lease.ttl + 1)
    assert await lease.keep_alive() is False
    assert not lease.alive()


async def test_revoking_deletes_the_keys_at_once(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(60)
    await store.txn((), [Put("/m/a", b"", lease.id), Put("/m/b", b"", lease.id), Put("/m/c", b"")])
    await lease.revoke()
    assert not lease.alive()
    assert [item.key for item in (await store.range("/m/")).items] == ["/m/c"]
    with pytest.raises(NotFound, match="lease"):
        await store.put("/m/d", b"", lease=lease.id)


async def test_revoking_twice_does_no_harm(harness: Harness) -> None:
    lease = await harness.store.grant(60)
    await lease.revoke()
    await lease.revoke()


async def test_revoking_a_lease_without_keys_changes_no_revision(harness: Harness) -> None:
    store = harness.store
    revision = await store.put("/a", b"")
    lease = await store.grant(60)
    await lease.revoke()
    assert (await store.range("/")).revision == revision


async def test_a_put_without_the_lease_lets_the_key_stay(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(60)
    await store.put("/a", b"", lease=lease.id)
    await store.put("/a", b"")
    await lease.revoke()
    item = await store.get("/a")
    assert item is not None
    assert item.lease == 0


async def test_a_key_goes_with_its_latest_lease(harness: Harness) -> None:
    store = harness.store
    first, second = await store.grant(60), await store.grant(60)
    assert first.id != second.id
    await store.put("/a", b"", lease=first.id)
    await store.put("/a", b"", lease=second.id)
    await first.revoke()
    assert await store.get("/a") is not None
    await second.revoke()
    assert await store.get("/a") is None


async def test_a_key_made_again_is_not_bound_to_the_old_lease(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(60)
    await store.put("/a", b"", lease=lease.id)
    await store.delete("/a")
    await store.put("/a", b"")
    await lease.revoke()
    assert await store.get("/a") is not None


async def test_creating_and_swapping_can_name_a_lease(harness: Harness) -> None:
    store = harness.store
    lease = await store.grant(60)
    assert await cas.create(store, "/leader", b"1", lease=lease.id)
    item = await store.get("/leader")
    assert item is not None
    assert await cas.swap(store, "/leader", item.mod_revision, b"2", lease=lease.id)
    await lease.revoke()
    assert await store.get("/leader") is None


@pytest.mark.parametrize("ttl", [0, -1])
async def test_a_lease_without_time_is_refused(harness: Harness, ttl: int) -> None:
    with pytest.raises(Refused, match="1 second"):
        await harness.store.grant(ttl)


async def test_many_leases_run_out_each_at_its_time(harness: Harness) -> None:
    store = harness.store
    ttls = [harness.ttl, 2 * harness.ttl, 3 * harness.ttl]
    leases = await asyncio.gather(*(store.grant(ttl) for ttl in ttls))
    for lease in leases:
        last = await store.put(f"/m/{lease.ttl:02}", b"", lease=lease.id)
    await harness.pass_time(ttls[-1] + 1)
    events = await take(store.watch("/m/", from_revision=last + 1), 3)
    assert [event.key for event in events] == [f"/m/{ttl:02}" for ttl in ttls]
