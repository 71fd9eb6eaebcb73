"""The contract of every metadata store: transactions, and the idioms built on them."""

from __future__ import annotations

import asyncio

import pytest

from sulina.errors import NotFound, Overloaded, Refused, TooLarge
from sulina.metadata import cas
from sulina.metadata.check import MAX_TXN_OPS
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    Get,
    GetPrefix,
    KeyValue,
    MetadataStore,
    ModRevisionIs,
    Op,
    Present,
    Put,
    Response,
    ValueIs,
)


async def test_all_changes_of_a_transaction_share_one_revision(store: MetadataStore) -> None:
    before = await store.put("/old", b"")
    result = await store.txn((), [Put("/a", b"1"), Put("/b", b"2"), Delete("/old")])
    assert (result.succeeded, result.revision) == (True, before + 1)
    listing = await store.range("/")
    assert listing.revision == before + 1
    assert [(item.key, item.mod_revision) for item in listing.items] == [
        ("/a", before + 1),
        ("/b", before + 1),
    ]


async def test_a_failed_comparison_runs_the_other_branch_only(store: MetadataStore) -> None:
    await store.put("/a", b"")
    result = await store.txn(
        [Present("/a"), Absent("/a")], [Put("/then", b"")], [Put("/otherwise", b"")]
    )
    assert result.succeeded is False
    assert await store.get("/then") is None
    assert await store.get("/otherwise") is not None


async def test_a_transaction_that_only_reads_changes_no_revision(store: MetadataStore) -> None:
    revision = await store.put("/a", b"x")
    result = await store.txn([Present("/a")], [Get("/a"), Get("/b"), Delete("/b")])
    assert result.revision == revision
    assert result.responses == (
        Response(item=KeyValue("/a", b"x", revision, revision, 1, 0)),
        Response(),
        Response(deleted=0),
    )


async def test_an_empty_transaction_succeeds(store: MetadataStore) -> None:
    assert (await store.txn((), ())).succeeded is True


async def test_operations_see_those_before_them(store: MetadataStore) -> None:
    await store.put("/a", b"old")
    result = await store.txn((), [Get("/a"), Put("/a", b"new"), Get("/a")])
    before, _, after = (response.item for response in result.responses)
    assert before is not None
    assert after is not None
    assert (before.value, before.version) == (b"old", 1)
    assert (after.value, after.version, after.mod_revision) == (b"new", 2, result.revision)


async def test_deletions_answer_how_much_they_removed(store: MetadataStore) -> None:
    for key in ("/p/1", "/p/2", "/p/3", "/pq"):
        await store.put(key, b"")
    result = await store.txn((), [Delete("/p/1"), DeletePrefix("/p/"), DeletePrefix("/none/")])
    assert [response.deleted for response in result.responses] == [1, 2, 0]
    assert [item.key for item in (await store.range("/")).items] == ["/pq"]


async def test_a_transaction_lists_keys_as_what_comes_before_in_it_left_them(
    store: MetadataStore,
) -> None:
    for key in ("/p/1", "/p/2", "/pq"):
        await store.put(key, key.encode())
    result = await store.txn(
        (),
        [
            GetPrefix("/p/", 9),
            Put("/p/0", b"new"),
            Delete("/p/1"),
            GetPrefix("/p/", 2),
            GetPrefix("/p/", 1),
            GetPrefix("/none/", 1),
        ],
    )
    found = [([item.key for item in each.items], each.more) for each in result.responses]
    assert found[0] == (["/p/1", "/p/2"], False)
    assert found[3:] == [(["/p/0", "/p/2"], False), (["/p/0"], True), ([], False)]
    first = result.responses[3].items[0]
    assert (first.value, first.mod_revision, first.version) == (b"new", result.revision, 1)


async def test_a_listing_of_nothing_is_refused(store: MetadataStore) -> None:
    with pytest.raises(Refused):
        await store.txn((), [GetPrefix("/p/", 0)])


def comparisons(item: KeyValue) -> list[tuple[Compare, bool]]:
    key = item.key
    return [
        (Present(key), True),
        (Absent(key), False),
        (ModRevisionIs(key, item.mod_revision), True),
        (ModRevisionIs(key, item.create_revision), False),
        (ModRevisionIs(key, 0), False),
        (ValueIs(key, b"now"), True),
        (ValueIs(key, b""), False),
        (Present("/none"), False),
        (Absent("/none"), True),
        (ModRevisionIs("/none", 0), True),
        (ModRevisionIs("/none", item.mod_revision), False),
        (ValueIs("/none", b""), False),
    ]


async def test_each_comparison_holds_exactly_when_it_should(store: MetadataStore) -> None:
    await store.put("/a", b"before")
    await store.put("/a", b"now")
    item = await store.get("/a")
    assert item is not None
    for compare, holds in comparisons(item):
        assert (await store.txn([compare], ())).succeeded is holds, compare


@pytest.mark.parametrize(
    "ops",
    [
        [Put("/a", b"1"), Put("/a", b"2")],
        [Put("/a", b"1"), Delete("/a")],
        [Delete("/a"), Put("/a", b"1")],
        [DeletePrefix("/"), Put("/a", b"1")],
    ],
)
async def test_changing_a_key_twice_in_a_transaction_is_refused(
    store: MetadataStore, ops: list[Op]
) -> None:
    with pytest.raises(Refused, match="twice"):
        await store.txn((), ops)
    with pytest.raises(Refused, match="twice"):
        await store.txn((), (), ops)
    assert await store.get("/a") is None


async def test_both_branches_may_change_the_same_key(store: MetadataStore) -> None:
    await store.txn([Absent("/a")], [Put("/a", b"then")], [Put("/a", b"otherwise")])
    item = await store.get("/a")
    assert item is not None
    assert item.value == b"then"


async def test_128_operations_are_taken_and_129_refused(store: MetadataStore) -> None:
    puts = [Put(f"/many/{number}", b"") for number in range(MAX_TXN_OPS + 1)]
    absent = [Absent(put.key) for put in puts]
    await store.txn(absent[:-1], puts[:-1], puts[:-1])
    assert len((await store.range("/many/")).items) == MAX_TXN_OPS
    with pytest.raises(Refused, match="128 operations"):
        await store.txn((), puts)
    with pytest.raises(Refused, match="128 operations"):
        await store.txn(absent, ())
    with pytest.raises(Refused, match="128 operations"):
        await store.txn((), (), puts)


async def test_a_transaction_too_large_as_a_whole_is_refused(store: MetadataStore) -> None:
    with pytest.raises(TooLarge, match="split it"):
        await store.txn((), [Put("/a", bytes(700_000)), Put("/b", bytes(700_000))])


async def test_deleting_the_empty_prefix_is_refused(store: MetadataStore) -> None:
    with pytest.raises(Refused, match="every key"):
        await store.txn((), [DeletePrefix("")])


async def test_a_lease_that_is_gone_fails_the_whole_transaction(store: MetadataStore) -> None:
    with pytest.raises(NotFound, match="lease"):
        await store.txn((), [Put("/a", b""), Put("/b", b"", lease=987_654_321)])
    assert await store.get("/a") is None


async def test_of_many_who_create_a_key_one_wins(store: MetadataStore) -> None:
    won = await asyncio.gather(
        *(cas.create(store, "/leader", str(number).encode()) for number in range(20))
    )
    item = await store.get("/leader")
    assert item is not None
    assert won.count(True) == 1
    assert won[int(item.value)] is True
    assert item.version == 1


async def test_guards_must_hold_to_create_or_swap(store: MetadataStore) -> None:
    assert not await cas.create(store, "/a/b", b"", guards=[Present("/a")])
    revision = await store.put("/a", b"")
    assert await cas.create(store, "/a/b", b"", guards=[Present("/a")])
    assert await cas.swap(store, "/a", revision, b"", guards=[Absent("/a/b")]) is None


async def test_a_swap_needs_the_revision_that_was_read(store: MetadataStore) -> None:
    first = await cas.swap(store, "/a", 0, b"one")
    assert first is not None
    assert await cas.swap(store, "/a", 0, b"late") is None
    second = await cas.swap(store, "/a", first, b"two")
    assert second == first + 1
    assert await cas.swap(store, "/a", first, b"late") is None
    item = await store.get("/a")
    assert item is not None
    assert item.value == b"two"


def add_one(item: KeyValue | None) -> bytes:
    return str(1 + (0 if item is None else int(item.value))).encode()


async def test_no_concurrent_update_is_lost(store: MetadataStore) -> None:
    await asyncio.gather(*(cas.update(store, "/count", add_one, tries=100) for _ in range(25)))
    item = await store.get("/count")
    assert item is not None
    assert (item.value, item.version) == (b"25", 25)


async def test_an_update_may_leave_the_key_alone(store: MetadataStore) -> None:
    revision = await store.put("/a", b"")
    assert await cas.update(store, "/a", lambda _: None) is None
    assert (await store.range("/")).revision == revision


async def test_an_update_that_loses_its_races_gives_up_and_changes_nothing(
    store: MetadataStore,
) -> None:
    outcomes = await asyncio.gather(
        *(cas.update(store, "/count", add_one, tries=1) for _ in range(10)), return_exceptions=True
    )
    lost = [outcome for outcome in outcomes if isinstance(outcome, Overloaded)]
    item = await store.get("/count")
    assert item is not None
    assert lost
    assert int(item.value) == len(outcomes) - len(lost)


async def test_a_listing_never_shows_half_a_transaction(store: MetadataStore) -> None:
    async def write() -> None:
        for number in range(30):
            value = str(number).encode()
            await store.txn((), [Put("/pair/a", value), Put("/pair/b", value)])

    writer = asyncio.create_task(write())
    while not writer.done():
        listing = await store.range("/pair/")
        assert len({(item.value, item.mod_revision) for item in listing.items}) <= 1
        assert all(item.mod_revision <= listing.revision for item in listing.items)
        await asyncio.sleep(0)
    await writer
