"""Outcomes of appends that arrive after the log was repaired."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.outcomes import Done
from sulina.errors import StorageFailed
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import namespaces, topic_lifecycle
from sulina.metadata.keys.ledgers import LedgerIds
from sulina.metadata.keys.topics import TopicRecord
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock
from sulina.runtime.seam import Buffer
from sulina.wire.encode import Origin, encode_frame
from tests.support.logs import append

_TOPIC = TopicName.parse("/default/late")


class ReticentStore(MemoryEntryStore):
    """Stores entries; from the second of each ledger on, the test reports their outcome."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Done] = []

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
        if entry:
            self.outcomes.append(done)
            done = lambda _: None  # noqa: E731
        super().submit(ledger, entry, lac, payload, done, recovery=recovery)


async def test_a_late_outcome_of_the_previous_ledger_confirms_nothing() -> None:
    clock, store = RealClock(), ReticentStore()
    metadata = await EmbeddedStore.open(clock)
    await namespaces.create_first(metadata)
    await topic_lifecycle.create(metadata, _TOPIC, TopicRecord())
    log = await ManagedLedger.open(
        _TOPIC, EmbeddedLedgers(store), metadata, LedgerIds(metadata), clock, LedgerSettings()
    )
    first, second = (
        append(log, encode_frame(Origin("p"), number, [b"x"], 1)) for number in range(2)
    )
    while len(store.outcomes) < 2:
        await clock.sleep(0)
    failed, late = store.outcomes
    failed(StorageFailed("the disk failed"))
    with pytest.raises(StorageFailed):
        await first
    with pytest.raises(StorageFailed):
        await second
    await log.repair()
    assert log.end == 2, "both are stored, although their outcome was unknown"

    third = append(log, encode_frame(Origin("p"), 2, [b"x"], 1))
    while len(store.outcomes) < 3:
        await clock.sleep(0)
    late(None)
    assert log.end == 2 and not third.done()
    store.outcomes[2](None)
    assert (await third).base == 2
    await log.close()
    await metadata.close()
