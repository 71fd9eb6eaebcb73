"""A prefix_cache ends up equal to the store whatever happens, and tells exactly what changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sulina.errors import CorruptEntry, Refused, Retriable, Unavailable
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import Delete, KeyValue, MetadataStore, Op, Put
from sulina.runtime.real_clock import RealClock
from tests.metadata.harness import PATIENCE
from tests.metadata.manual_clock import ManualClock
from tests.metadata.unreliable import UnreliableStore

LONG = 60.0
"""More than a prefix_cache ever pauses; the clock is a manual one."""


def _text(item: KeyValue) -> str | None:
    if item.value == b"damaged":
        raise CorruptEntry(f"{item.key} is damaged")
    return None if item.value == b"foreign" else item.value.decode()


class World:
    """A store, the same with faults, and a prefix_cache of it that remembers what it told."""

    def __init__(self, store: MetadataStore, clock: ManualClock, page: int) -> None:
        self.clock = clock
        self.real = store
        self.store = UnreliableStore(store)
        self.table: CachedTable[str] = CachedTable("/t/", _text)
        self.told: list[tuple[str, str | None]] = []
        self.table.on_change(lambda rest, value: self.told.append((rest, value)))
        self.prefix_cache = PrefixCache(self.store, clock, "/t/", [self.table], page=page)
        self.history: dict[str, list[str | None]] = {}
        self._count = 0

    async def write(self, *names: str, delete: bool = False) -> None:
        """Change keys in one transaction, each to a value that was never used before."""
        ops: list[Op] = []
        for name in names:
            self._count += 1
            value = None if delete else str(self._count)
            self.history.setdefault(name, []).append(value)
            ops.append(Put(f"/t/{name}", value.encode()) if value else Delete(f"/t/{name}"))
        await self.real.txn((), ops)

    async def stored(self) -> dict[str, str]:
        items = (await self.real.range("/t/")).items
        return {item.key.removeprefix("/t/"): item.value.decode() for item in items}

    async def settle(self) -> None:
        await self.clock.advance(LONG)

    async def settle_equal(self) -> None:
        """Until the prefix_cache is equal to the store; fails if it does not get there."""
        for _ in range(200):
            if self.table.items == await self.stored():
                return
            await self.clock.advance(0.5)
        assert self.table.items == await self.stored()

    def check_told(self) -> None:
        """What was told makes the table, nothing was told twice, and nothing went back."""
        state: dict[str, str] = {}
        place: dict[str, int] = {}
        for name, value in self.told:
            assert state.get(name) != value, f"{name} did not change"
            after = place.get(name, -1) + 1
            assert value in self.history[name][after:], f"{name} went back to {value}"
            place[name] = self.history[name].index(value, after)
            if value is None:
                del state[name]
            else:
                state[name] = value
        assert state == self.table.items


@asynccontextmanager
async def world(page: int = 100) -> AsyncIterator[World]:
    clock = ManualClock()
    store = await EmbeddedStore.open(clock)
    try:
        yield World(store, clock, page)
    finally:
        await store.close()


async def test_it_begins_with_what_is_there_and_follows_what_comes() -> None:
    async with world() as it:
        await it.write("a", "b")
        async with it.prefix_cache:
            assert it.table.items == {"a": "1", "b": "2"}
            await it.write("b", "c")
            await it.write("a", delete=True)
            await it.settle()
            assert it.table.items == {"b": "3", "c": "4"}
            item = await it.real.get("/t/c")
            assert item is not None
            assert it.table.revisions["c"] == item.mod_revision
            assert it.prefix_cache.newest[0] == "/t/a"
        it.check_told()


async def test_changes_elsewhere_are_not_its_business() -> None:
    async with world() as it, it.prefix_cache:
        await it.real.put("/tt/x", b"1")
        await it.real.put("/t", b"1")
        await it.settle()
        assert it.told == []


async def test_each_key_goes_to_the_first_table_whose_prefix_it_has() -> None:
    async with world() as it:
        inner: CachedTable[str] = CachedTable("/t/in/", _text)
        outer: CachedTable[str] = CachedTable("/t/", _text)
        async with PrefixCache(it.real, it.clock, "/t/", [inner, outer]):
            await it.real.put("/t/in/x", b"1")
            await it.real.put("/t/x", b"2")
            await it.settle()
            assert (inner.items, outer.items) == ({"x": "1"}, {"x": "2"})


async def test_what_cannot_be_read_is_left_out_and_comes_when_it_can(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as it:
        await it.real.put("/t/a", b"damaged")
        await it.real.put("/t/b", b"foreign")
        async with it.prefix_cache:
            assert it.table.items == {}
            assert "/t/a is ignored" in caplog.text
            await it.real.put("/t/a", b"1")
            await it.settle()
            assert it.table.items == {"a": "1"}
            await it.real.put("/t/a", b"damaged")
            await it.settle()
            assert it.told == [("a", "1"), ("a", None)]


async def test_one_who_can_not_act_on_a_change_harms_nobody_else(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def broken(rest: str, value: str | None) -> None:
        raise RuntimeError("no way")

    async with world() as it:
        it.table.on_change(broken)
        it.table.on_change(lambda rest, value: it.told.append((rest, value)))
        async with it.prefix_cache:
            await it.write("a")
            await it.write("b")
            await it.settle()
            assert it.told == [("a", "1"), ("a", "1"), ("b", "2"), ("b", "2")]
            assert "a handler failed for the change" in caplog.text


@pytest.mark.parametrize("error", [Unavailable("gone"), Refused("not allowed"), None])
async def test_a_lost_watch_costs_nothing_but_a_listing(error: Retriable | None) -> None:
    async with world() as it:
        await it.write("a")
        async with it.prefix_cache:
            it.store.lose_watches(error)
            await it.write("b")
            await it.write("a", delete=True)
            await it.settle()
            assert it.table.items == {"b": "2"}
        it.check_told()


async def test_it_lists_again_after_a_compaction() -> None:
    async with world() as it:
        await it.write("a")
        async with it.prefix_cache:
            it.store.watch_error = Unavailable("gone")
            it.store.listing_errors = [Unavailable("gone"), Unavailable("gone")]
            it.store.lose_watches()
            await it.write("b")
            await it.write("a", delete=True)
            await it.real.compact((await it.real.range("/")).revision)
            it.store.watch_error = None
            await it.settle()
            assert it.table.items == {"b": "2"}
            await it.write("c")
            await it.settle()
            assert it.table.items == {"b": "2", "c": "4"}
        it.check_told()


async def test_a_watch_that_fails_at_once_again_and_again_does_not_make_it_list_without_pause() -> (
    None
):
    async with world() as it, it.prefix_cache:
        it.store.watch_error = Unavailable("gone")
        it.store.lose_watches()
        await it.clock.advance(20.0)
        assert 5 < it.store.pages < 25


async def test_it_ends_quietly_when_the_store_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    async with world() as it, it.prefix_cache:
        await it.real.close()
        await it.settle()
        assert it.prefix_cache._task is not None
        assert it.prefix_cache._task.done() and it.prefix_cache._task.exception() is None
        assert caplog.text == ""


async def test_entering_fails_as_the_store_does() -> None:
    async with world() as it:
        it.store.listing_errors = [Unavailable("gone")]
        with pytest.raises(Unavailable):
            await it.prefix_cache.__aenter__()


async def test_waiting_for_a_revision_ends_when_it_is_in_the_tables() -> None:
    async with world() as it, it.prefix_cache:
        revision = it.prefix_cache.revision + 2
        waiting = asyncio.create_task(it.prefix_cache.reached(revision))
        await it.write("a")
        await it.settle()
        assert not waiting.done()
        await it.write("b")
        await it.settle()
        assert waiting.done()
        await it.prefix_cache.reached(revision)


async def test_a_refresh_brings_what_a_deaf_watch_missed_and_watches_anew() -> None:
    async with world() as it:
        await it.write("a")
        it.store.deaf = True
        async with it.prefix_cache:
            await it.write("b")
            await it.write("a", delete=True)
            await it.settle()
            assert it.table.items == {"a": "1"}
            it.store.deaf = False
            await it.prefix_cache.refresh()
            assert it.table.items == {"b": "2"}
            await it.write("c")
            await it.settle()
            assert it.table.items == {"b": "2", "c": "4"}
        it.check_told()


async def test_a_refresh_that_fails_changes_nothing() -> None:
    async with world() as it:
        await it.write("a")
        it.store.deaf = True
        async with it.prefix_cache:
            await it.write("b")
            it.store.listing_errors = [Unavailable("gone")]
            with pytest.raises(Unavailable):
                await it.prefix_cache.refresh()
            assert it.table.items == {"a": "1"}


async def test_a_listing_that_is_older_than_what_the_watch_told_meanwhile_takes_nothing_back() -> (
    None
):
    async with world() as it:
        await it.write("a", "b", "c")
        async with it.prefix_cache:

            async def meanwhile() -> None:
                await it.write("a", delete=True)
                await it.write("b", "d")
                await it.settle()

            it.store.after_page = meanwhile
            await it.prefix_cache.refresh()
            assert it.table.items == await it.stored()
        it.check_told()


async def test_a_refresh_in_the_middle_of_a_transaction_loses_none_of_it() -> None:
    async with world() as it:
        await it.write("a")
        async with it.prefix_cache:

            async def meanwhile() -> None:
                # The listing is from before this change, and the watch tells half of it.
                it.store.after_page = None
                await it.write("b", "c")
                it.store.tell_only(0)  # besides the one that is waited for
                await it.settle()
                assert it.table.items == {"a": "1", "b": "2"}

            it.store.after_page = meanwhile
            await it.prefix_cache.refresh()
            await it.settle()
            assert it.table.items == await it.stored()
        it.check_told()


async def test_a_store_that_went_back_is_not_followed_there(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with world() as it, world() as restored:
        for _ in range(3):
            await it.write("a")
        await restored.write("b")
        async with it.prefix_cache:
            it.store._store = restored.real
            with pytest.raises(Retriable, match="restored from a backup"):
                await it.prefix_cache.refresh()
            assert it.table.items == {"a": "3"}


async def test_it_follows_every_kind_of_store(store: MetadataStore) -> None:
    table: CachedTable[str] = CachedTable("/t/", _text)
    await store.put("/t/a", b"1")
    async with (
        asyncio.timeout(PATIENCE),
        PrefixCache(store, RealClock(), "/t/", [table], page=2) as it,
    ):
        assert table.items == {"a": "1"}
        await store.txn((), [Put(f"/t/{n}", b"2") for n in range(5)])
        await store.delete("/t/a")
        revision = await store.put("/t/b", b"3")
        await it.reached(revision)
        expected = {**{str(n): "2" for n in range(5)}, "b": "3"}
        assert table.items == expected
        await it.refresh()
        await store.delete("/t/0")
        await it.reached(await store.put("/t/1", b"4"))
        del expected["0"]
        assert table.items == {**expected, "1": "4"}
        assert it.newest == ("/t/1", table.revisions["1"])


NAMES = st.sampled_from("abcde")
CHANGES = st.tuples(
    st.just("write"), st.lists(NAMES, min_size=1, max_size=4, unique=True), st.booleans()
)
FAULTS = st.sampled_from(
    ["lose", "end", "deafen", "hear", "fail", "compact", "refresh", "pause"]
).map(lambda what: (what, list[str](), False))
STEPS = st.lists(CHANGES | FAULTS, max_size=25)


async def _step(it: World, what: str, names: Sequence[str], delete: bool) -> None:
    match what:
        case "write":
            await it.write(*names, delete=delete)
        case "lose":
            it.store.lose_watches(Unavailable("gone"))
        case "end":
            it.store.lose_watches()
        case "deafen":
            it.store.deaf = True
        case "hear":
            it.store.deaf = False
        case "fail":
            it.store.listing_errors.append(Unavailable("gone"))
        case "compact":
            await it.real.compact((await it.real.range("/")).revision)
        case "pause":
            await it.clock.advance(0.2)


@settings(deadline=None, max_examples=150)
@given(first=STEPS, steps=STEPS, between=STEPS, page=st.integers(1, 6))
def test_any_order_of_changes_and_faults_ends_equal_to_the_store(
    first: list[tuple[str, list[str], bool]],
    steps: list[tuple[str, list[str], bool]],
    between: list[tuple[str, list[str], bool]],
    page: int,
) -> None:
    """``between`` happens bit by bit while pages are being listed."""

    async def scenario() -> None:
        async with world(page) as it:
            for step in first:
                if step[0] == "write":
                    await _step(it, *step)
            meanwhile = [step for step in between if step[0] not in ("refresh", "fail", "pause")]

            async def interfere() -> None:
                if meanwhile:
                    await _step(it, *meanwhile.pop())

            it.store.before_page = it.store.after_page = interfere
            async with it.prefix_cache:
                highest = it.prefix_cache.revision
                for step in steps:
                    if step[0] == "refresh":
                        refreshing = asyncio.create_task(it.prefix_cache.refresh())
                        while not refreshing.done():
                            await it.clock.advance(0.2)
                        assert refreshing.exception() is None or isinstance(
                            refreshing.exception(), Unavailable
                        )
                    else:
                        await _step(it, *step)
                    assert it.prefix_cache.revision >= highest
                    highest = it.prefix_cache.revision
                meanwhile.clear()
                it.store.listing_errors.clear()
                it.store.deaf = False
                # Only a deaf watch needs help: every other fault is overcome without.
                if it.store.was_deaf:
                    it.store.lose_watches()
                await it.settle_equal()
                for name, revision in it.table.revisions.items():
                    item = await it.real.get(f"/t/{name}")
                    assert item is not None and item.mod_revision == revision
            it.check_told()

    asyncio.run(scenario())
