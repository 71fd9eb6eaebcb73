"""A topic with thousands of ledgers: its list stays within the limits of the store."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sulina.errors import CorruptEntry
from sulina.metadata.keys import ledger_pages, ledgers, topic_lifecycle, topics
from sulina.metadata.keys.ledgers import LedgerList, LedgerRef, LedgerState, TieredRef
from sulina.metadata.store import Op, Put
from tests.tier.world import TOPIC, TierBench

DIGEST = "v1-0123456789abcdef0123456789abcdef"
MANY = 10_000


def refs(count: int, *, tiered: bool = True, first: int = 0) -> tuple[LedgerRef, ...]:
    """Ledgers of 1,000 records each."""
    start = 1_700_000_000_000_000
    return tuple(
        LedgerRef(
            1_000_000 + n,
            n * 1000,
            n * 1000 + 999,
            LedgerState.CLOSED,
            300_000,
            start + n * 60_000_000,
            start + (n + 1) * 60_000_000,
            42,
            TieredRef(81_234, DIGEST, local=False) if tiered else None,
        )
        for n in range(first, first + count)
    )


@pytest.fixture
async def sizes(world: TierBench, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The bytes that each transaction wrote."""
    await topic_lifecycle.create(world.metadata, TOPIC, topics.TopicRecord())
    written: list[int] = []
    txn = world.metadata.txn

    async def counted(compares: object, then: list[Op], otherwise: object = ()) -> object:
        written.append(sum(len(op.value) for op in then if isinstance(op, Put)))
        return await txn(compares, then, otherwise)  # type: ignore[arg-type]

    monkeypatch.setattr(world.metadata, "txn", counted)
    return written


async def swap(world: TierBench, before: ledgers.StoredLedgers, now: LedgerList) -> LedgerList:
    now = ledger_pages.with_pages(now)
    done = await ledgers.swap(world.metadata, TOPIC, before.revision, now, before=before.list)
    assert done is not None
    assert (await ledgers.get(world.metadata, TOPIC)).list == now
    return now


async def test_ten_thousand_ledgers_are_a_small_change_each(
    world: TierBench, sizes: list[int]
) -> None:
    all_refs = refs(MANY)
    step = 2500
    for count in range(step, MANY + 1, step):
        before = await ledgers.get(world.metadata, TOPIC)
        await swap(world, before, replace(before.list, epoch=1, ledgers=all_refs[:count]))
    stored = await ledgers.get(world.metadata, TOPIC)
    assert stored.list.ledgers == all_refs and len(stored.list.pages) == 99
    sizes.clear()
    following = LedgerRef(5_000_000, MANY * 1000)
    await swap(world, stored, replace(stored.list, ledgers=(*all_refs, following)))
    assert sum(sizes) < 60_000  # not the 2.5 MB of all
    page = await world.metadata.get(ledger_pages.key(TOPIC, all_refs[0].id))
    assert page is not None and len(page.value) < 125 * ledger_pages.PAGE


async def test_a_changed_ledger_rewrites_its_page_alone(world: TierBench, sizes: list[int]) -> None:
    before = await ledgers.get(world.metadata, TOPIC)
    await swap(world, before, LedgerList(1, refs(1000, tiered=False)))
    stored = await ledgers.get(world.metadata, TOPIC)
    changed = replace(stored.list.ledgers[150], tiered=TieredRef(1, DIGEST))
    sizes.clear()
    await swap(world, stored, stored.list.changed(changed))
    assert sum(sizes) < 60_000
    found = (await ledgers.get(world.metadata, TOPIC)).list
    assert [n for n, ref in enumerate(found.ledgers) if ref.tiered] == [150]


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250, 900, 999])
async def test_trimming_takes_ledgers_out_of_pages_and_pages_away(
    world: TierBench, sizes: list[int], count: int
) -> None:
    before = await ledgers.get(world.metadata, TOPIC)
    await swap(world, before, LedgerList(1, refs(1000)))
    stored = await ledgers.get(world.metadata, TOPIC)
    trimmed = await swap(world, stored, stored.list.trimmed(count))
    assert trimmed.ledgers == refs(1000)[count:]
    listing = await world.metadata.range(ledger_pages.root(TOPIC), keys_only=True)
    assert len(listing.items) == len(trimmed.pages)
    again = await ledgers.get(world.metadata, TOPIC)
    last = replace(again.list.ledgers[0], tiered=TieredRef(2, DIGEST))
    await swap(world, again, again.list.changed(last))
    more = await ledgers.get(world.metadata, TOPIC)
    if len(more.list.ledgers) > 1:
        await swap(world, more, more.list.trimmed(1))


async def test_a_reader_between_two_changes_sees_one_of_them(
    world: TierBench, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await ledgers.get(world.metadata, TOPIC)
    await swap(world, before, LedgerList(1, refs(1000)))
    listing = world.metadata.range
    steps = 0

    async def changed_meanwhile(prefix: str, **more: object) -> object:
        nonlocal steps
        if prefix == ledger_pages.root(TOPIC) and steps < 3:
            steps += 1
            monkeypatch.setattr(world.metadata, "range", listing)
            now = await ledgers.get(world.metadata, TOPIC)
            gone = now.list.trimmed(70)
            ref = replace(gone.ledgers[0], tiered=TieredRef(steps, DIGEST))
            await swap(world, now, gone.changed(ref))
            monkeypatch.setattr(world.metadata, "range", changed_meanwhile)
        return await listing(prefix, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(world.metadata, "range", changed_meanwhile)
    found = await ledgers.get(world.metadata, TOPIC)
    assert len(found.list.ledgers) == 1000 - 3 * 70
    assert found.list.ledgers[1:] == refs(1000)[211:]


async def test_a_damaged_page_is_told(world: TierBench, sizes: list[int]) -> None:
    before = await ledgers.get(world.metadata, TOPIC)
    await swap(world, before, LedgerList(1, refs(300)))
    await world.metadata.put(ledger_pages.key(TOPIC, 1_000_000), json.dumps({"rows": 1}).encode())
    with pytest.raises(CorruptEntry, match="ledger-pages"):
        await ledgers.get(world.metadata, TOPIC)


async def test_deleting_a_topic_deletes_its_pages(world: TierBench, sizes: list[int]) -> None:
    before = await ledgers.get(world.metadata, TOPIC)
    await swap(world, before, LedgerList(1, refs(300)))
    await topic_lifecycle.delete(world.metadata, TOPIC)
    assert not (await world.metadata.range(ledger_pages.root(TOPIC))).items
