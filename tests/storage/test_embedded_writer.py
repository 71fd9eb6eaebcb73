"""The writer of a ledger in this process: outcomes in order, and none after a failure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.outcomes import Done
from sulina.errors import Fenced, StorageFull, SulinaError, TooLarge
from sulina.runtime.seam import Buffer


class SlowStore(MemoryEntryStore):
    """Reports outcomes when the test says so; refuses empty payloads."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Done] = []

    def submit(
        self,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer | Sequence[Buffer],
        done: Done,
        *,
        recovery: bool = False,
    ) -> None:
        if not payload:
            raise TooLarge("not this one")
        self.waiting.append(done)


async def test_a_refused_entry_is_reported_after_those_before_it() -> None:
    store = SlowStore()
    writer = await EmbeddedLedgers(store).create(1)
    outcomes: list[tuple[str, SulinaError | None]] = []

    def told(name: str, error: SulinaError | None) -> None:
        outcomes.append((name, error))

    for name, payload in (("first", b"x"), ("refused", b""), ("later", b"y")):
        writer.submit(payload, partial(told, name))
    await asyncio.sleep(0)
    assert not outcomes and len(store.waiting) == 1, "nothing is written after a refused entry"
    store.waiting[0](None)
    assert [name for name, _ in outcomes] == ["first", "refused", "later"]
    assert [type(error) for _, error in outcomes] == [type(None), TooLarge, Fenced]
    assert writer.lac == 0
    with pytest.raises(Fenced):
        await writer.close()


async def test_an_outcome_is_never_reported_while_the_entry_is_appended() -> None:
    writer = await EmbeddedLedgers(SlowStore()).create(1)
    outcomes: list[SulinaError | None] = []
    writer.submit(b"", outcomes.append)
    assert not outcomes
    await asyncio.sleep(0)
    assert isinstance(outcomes[0], TooLarge)


async def test_an_entry_that_is_stored_after_a_failed_one_is_not_confirmed() -> None:
    store = SlowStore()
    writer = await EmbeddedLedgers(store).create(1)
    outcomes: list[SulinaError | None] = []
    for payload in (b"a", b"b", b"c"):
        writer.submit(payload, outcomes.append)
    for done, error in zip(store.waiting, (None, StorageFull("full"), None), strict=True):
        done(error)
    assert outcomes[0] is None
    assert isinstance(outcomes[1], StorageFull)
    assert isinstance(outcomes[2], Fenced)
    assert writer.lac == 0
