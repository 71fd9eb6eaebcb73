"""The contract of every metadata store: keys, revisions, listings and leases."""

from __future__ import annotations

import asyncio

import pytest

from sulina.errors import Closed, NotFound, Refused, TooLarge
from sulina.metadata import cas
from sulina.metadata.check import MAX_KEY_BYTES, MAX_VALUE_BYTES
from sulina.metadata.store import EventKind, KeyValue, MetadataStore, Put
from tests.metadata.harness import Harness, take


async def revision_of(store: MetadataStore) -> int:
    return (await store.range("/")).revision


async def test_a_new_key_has_the_revision_that_made_it_and_version_1(store: MetadataStore) -> None:
    revision = await store.put("/a", b"one")
    assert await store.get("/a") == KeyValue("/a", b"one", revision, revision, 1, 0)


async def test_a_change_keeps_the_creation_and_counts_the_version(store: MetadataStore) -> None:
    created = await store.put("/a", b"one")
    changed = await store.put("/a", b"two")
    assert changed == created + 1
    assert await store.get("/a") == KeyValue("/a", b"two", created, changed, 2, 0)


async def test_a_put_of_the_same_value_is_a_change(store: MetadataStore) -> None:
    first = await store.put("/a", b"same")
    assert await store.put("/a", b"same") == first + 1


async def test_a_key_that_was_deleted_starts_anew(store: MetadataStore) -> None:
    await store.put("/a", b"one")
    await store.put("/a", b"two")
    assert await store.delete("/a") is True
    assert await store.get("/a") is None
    revision = await store.put("/a", b"three")
    assert await store.get("/a") == KeyValue("/a", b"three", revision, revision, 1, 0)


async def test_deleting_what_is_absent_changes_no_revision(store: MetadataStore) -> None:
    before = await store.put("/a", b"")
    assert await store.delete("/b") is False
    assert await revision_of(store) == before


async def test_keys_share_one_revision_counter(store: MetadataStore) -> None:
    first = await store.put("/a", b"")
    assert await store.put("/b", b"") == first + 1
    assert await store.delete("/a")
    assert await revision_of(store) == first + 2
    assert await store.put("/c", b"") == first + 3


async def test_an_absent_key_reads_as_none(store: MetadataStore) -> None:
    assert await store.get("/nothing") is None


async def test_values_may_be_empty_and_hold_any_byte(store: MetadataStore) -> None:
    for value in (b"", bytes(range(256))):
        await store.put("/a", value)
        found = await store.get("/a")
        assert found is not None
        assert found.value == value


async def test_a_prefix_with_a_slash_never_matches_a_longer_name(store: MetadataStore) -> None:
    await store.put("/topics/default/foo/topic", b"")
    await store.put("/topics/default/foobar/topic", b"")
    await store.put("/topics/default/foo", b"")
    listing = await store.range("/topics/default/foo/")
    assert [item.key for item in listing.items] == ["/topics/default/foo/topic"]


async def test_a_prefix_is_a_plain_string_not_a_folder(store: MetadataStore) -> None:
    for key in ("/p/a", "/p/ab", "/p/b"):
        await store.put(key, b"")
    assert [item.key for item in (await store.range("/p/a")).items] == ["/p/a", "/p/ab"]


async def test_a_listing_is_sorted_by_key(store: MetadataStore) -> None:
    keys = ["/s/b", "/s/a", "/s/a/x", "/s/~", "/s/é", "/s/\U0001f600", "/s/\uffee", "/s/A"]
    for key in keys:
        await store.put(key, key.encode())
    listing = await store.range("/s/")
    # The order of UTF-8 bytes, which is that of code points.
    assert [item.key for item in listing.items] == sorted(keys, key=str.encode)
    assert all(item.value == item.key.encode() for item in listing.items)


async def test_a_listing_of_nothing_still_has_the_revision(store: MetadataStore) -> None:
    revision = await store.put("/elsewhere", b"")
    listing = await store.range("/empty/")
    assert (listing.items, listing.revision, listing.more) == ((), revision, False)


async def test_a_listing_can_be_read_in_pages(store: MetadataStore) -> None:
    keys = [f"/p/{number}" for number in range(5)]
    for key in keys:
        await store.put(key, b"")
    await store.put("/q", b"")
    seen: list[str] = []
    after = None
    pages = 0
    while True:
        listing = await store.range("/p/", limit=2, after=after)
        seen += [item.key for item in listing.items]
        pages += 1
        if not listing.more:
            break
        after = seen[-1]
    assert seen == keys
    assert pages == 3


async def test_a_page_that_is_just_full_says_whether_more_follows(store: MetadataStore) -> None:
    for key in ("/p/1", "/p/2"):
        await store.put(key, b"")
    assert (await store.range("/p/", limit=1)).more is True
    assert (await store.range("/p/", limit=2)).more is False


async def test_keys_can_be_listed_without_their_values(store: MetadataStore) -> None:
    await store.put("/k/a", b"1")
    await store.put("/k/b", b"2")
    listing = await store.range("/k/", keys_only=True)
    assert [(item.key, item.value, item.version) for item in listing.items] == [
        ("/k/a", b"", 1),
        ("/k/b", b"", 1),
    ]


async def test_a_page_begins_behind_a_key_that_is_gone(store: MetadataStore) -> None:
    for key in ("/p/1", "/p/3"):
        await store.put(key, b"")
    listing = await store.range("/p/", after="/p/2")
    assert [item.key for item in listing.items] == ["/p/3"]
    assert [item.key for item in (await store.range("/p/", after="/a")).items] == ["/p/1", "/p/3"]


async def test_a_limit_below_one_is_refused(store: MetadataStore) -> None:
    with pytest.raises(Refused, match="limit"):
        await store.range("/p/", limit=0)


async def test_the_largest_key_and_value_are_taken(store: MetadataStore) -> None:
    key = "/" + "k" * (MAX_KEY_BYTES - 1)
    value = b"v" * MAX_VALUE_BYTES
    await store.put(key, value)
    found = await store.get(key)
    assert found is not None
    assert found.value == value


async def test_a_key_or_value_beyond_the_limit_is_too_large(store: MetadataStore) -> None:
    with pytest.raises(TooLarge, match="1024 bytes"):
        await store.put("/" + "é" * 512, b"")
    with pytest.raises(TooLarge, match="1048576 bytes"):
        await store.put("/a", bytes(MAX_VALUE_BYTES + 1))
    assert await store.get("/a") is None


@pytest.mark.parametrize("key", ["", "/\ud800"])
async def test_what_cannot_be_a_key_is_refused(store: MetadataStore, key: str) -> None:
    with pytest.raises(Refused):
        await store.put(key, b"")
    with pytest.raises(Refused):
        await store.get(key)


async def test_a_closed_store_says_so(store: MetadataStore) -> None:
    await store.close()
    await store.close()
    with pytest.raises(Closed):
        await store.get("/a")
    with pytest.raises(Closed):
        await store.range("/")
    with pytest.raises(Closed):
        await store.put("/a", b"")
    with pytest.raises(Closed):
        store.watch("/", from_revision=1)
    with pytest.raises(Closed):
        await store.grant(5)


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
