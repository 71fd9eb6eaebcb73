"""An object is read back completely, the next row group while one is verified."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from random import Random
from typing import Any

import pytest

from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import key_of
from sulina.errors import CorruptEntry, Unavailable
from sulina.lake.encoder import EncoderSettings
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.objects.memory import MemoryStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.seam import run_inline
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import assign
from tests.lake.ledgers import LEDGER, TOPIC, Ledger, encode
from tests.tier.world import HookedStore

HEAD = ObjectHead(TOPIC, LEDGER, 0)
GROUP_BYTES = 100 << 10
GROUPS = 4


async def an_object(*, damaged_at: int | None = None) -> tuple[HookedStore, ObjectSummary]:
    """A store with an object of several row groups, optionally with one damaged byte."""
    frames = []
    for number in range(GROUPS):
        payload = Random(number).randbytes(GROUP_BYTES)
        frame = bytearray(encode_frame(Origin("p"), number, [payload], 1))
        assign(frame, number, 1)
        frames.append(bytes(frame))
    written, summary = encode(Ledger(0, frames), EncoderSettings(GROUP_BYTES))
    data = bytearray(written)
    if damaged_at is not None:
        data[damaged_at] ^= 1

    async def whole() -> AsyncIterator[bytes]:
        yield bytes(data)

    store = HookedStore(MemoryStore(RealClock().wall_us))
    await store.inner.put(key_of(HEAD), whole())
    return store, summary


async def test_the_next_row_group_is_asked_for_while_one_is_checked() -> None:
    store, summary = await an_object()
    asked: list[int] = []

    async def run_blocking(work: Callable[[], Any]) -> Any:
        await RealClock().sleep(0)  # as a thread would: others have their turn meanwhile
        asked.append(sum(call == "get" for call, _ in store.calls))
        return work()

    objects = ObjectReader(store, run_blocking)
    assert (await objects.verify(HEAD)).digest == summary.digest
    assert asked == [2, 3, 4, 4]


async def test_what_is_on_its_way_is_given_up_when_the_object_turns_out_to_be_damaged() -> None:
    store, _ = await an_object(damaged_at=GROUP_BYTES // 2)
    objects = ObjectReader(store, run_inline)
    with pytest.raises(CorruptEntry, match="do not match their checksum"):
        await objects.verify(HEAD)
    assert sum(call == "get" for call, _ in store.calls) <= 2


async def test_an_error_of_the_store_ends_the_check() -> None:
    store, _ = await an_object()

    async def fail(moment: str, key: str) -> None:
        if moment == "before get" and len(store.calls) > 2:
            raise Unavailable("the store is away")

    store.hook = fail
    with pytest.raises(Unavailable, match="the store is away"):
        await ObjectReader(store, run_inline).verify(HEAD)
