"""Any sequence of calls, restarts and power cuts leaves the journal as a simple model says."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any, TypeVar

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from storage_grpc.journal import JournalStore
from sulina.errors import Fenced, NotFound, Refused
from sulina.runtime.memory_disk import MemoryDisk
from tests.storage.stores import open_journal

_T = TypeVar("_T")

LEDGERS = st.integers(0, 3)
ENTRIES = st.integers(0, 12)
SIZES = st.sampled_from([1, 8, 100, 5000])


class JournalMachine(RuleBasedStateMachine):
    """A journal and its model; every call is acknowledged before the next."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.disk = MemoryDisk()
        self.entries: dict[int, dict[int, bytes]] = {}
        self.lacs: dict[int, int] = {}
        self.fenced: set[int] = set()
        self.deleted: set[int] = set()
        self.store: JournalStore = self.run(open_journal(self.disk))

    def run(self, call: Coroutine[Any, Any, _T]) -> _T:
        return self.loop.run_until_complete(call)

    @rule(
        ledger=LEDGERS, entry=ENTRIES, size=SIZES, fill=st.integers(1, 255), recovery=st.booleans()
    )
    def append(self, ledger: int, entry: int, size: int, fill: int, recovery: bool) -> None:
        payload = bytes([fill]) * size

        async def call() -> type[Exception] | None:
            try:
                await self.store.append(ledger, entry, entry - 1, payload, recovery=recovery)
            except (NotFound, Fenced, Refused) as error:
                return type(error)
            return None

        expected: type[Exception] | None = None
        stored = self.entries.get(ledger, {}).get(entry)
        if ledger in self.deleted:
            expected = NotFound
        elif ledger in self.fenced and not recovery:
            expected = Fenced
        elif stored is not None and stored != payload:
            expected = Refused
        assert self.run(call()) is expected
        if expected is None:
            self.entries.setdefault(ledger, {})[entry] = payload
            if stored is None:
                self.lacs[ledger] = max(self.lacs.get(ledger, -1), entry - 1)

    @rule(ledger=LEDGERS)
    def fence(self, ledger: int) -> None:
        try:
            lac = self.run(self.store.fence(ledger))
        except NotFound:
            assert ledger in self.deleted
        else:
            assert lac == self.lacs.get(ledger, -1)
            self.fenced.add(ledger)

    @rule(ledger=LEDGERS)
    def delete(self, ledger: int) -> None:
        self.run(self.store.delete(ledger))
        self.deleted.add(ledger)
        self.fenced.discard(ledger)
        self.entries.pop(ledger, None)

    @rule()
    def close_and_open(self) -> None:
        self.run(self.store.close())
        self.store = self.run(open_journal(self.disk))
        assert not self.store.unclean

    @rule(seed=st.integers(0, 1 << 32))
    def cut_the_power(self, seed: int) -> None:
        survivor = self.disk.crash(random.Random(seed))
        self.run(self.store.close())
        self.disk = survivor
        self.store = self.run(open_journal(self.disk))
        assert self.store.recovery.damaged == ()

    @rule()
    def lose_the_index_files(self) -> None:
        self.run(self.store.close())
        for name in self.run(self.disk.list()):
            if name.endswith(".idx"):
                self.run(self.disk.remove(name))
        self.store = self.run(open_journal(self.disk))
        assert not self.store.unclean

    @invariant()
    def every_entry_is_as_it_was_written(self) -> None:
        known = {ledger for ledger, entries in self.entries.items() if entries} | self.fenced
        assert self.store.ledgers() == sorted(known)
        for ledger in known:
            entries = self.entries.get(ledger, {})
            stat = self.store.stat(ledger)
            assert stat is not None
            assert stat.fenced == (ledger in self.fenced)
            assert stat.bytes == sum(map(len, entries.values()))
            assert (stat.first_entry, stat.last_entry) == (
                min(entries, default=-1),
                max(entries, default=-1),
            )
            self.run(self.compare(ledger, entries))

    async def compare(self, ledger: int, entries: dict[int, bytes]) -> None:
        for first in range(14):
            expected: list[bytes] = []
            while first + len(expected) in entries:
                expected.append(entries[first + len(expected)])
            try:
                found = await self.store.read(ledger, first, max_entries=99, max_bytes=1 << 20)
            except NotFound:
                found = []
            assert [bytes(entry.payload) for entry in found] == expected

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()


JournalMachine.TestCase.settings = settings(
    max_examples=100,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)


TestJournal = JournalMachine.TestCase
