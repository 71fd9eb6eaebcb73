"""The embedded store against a model of itself, through restarts and power cuts.

The model is the simplest thing that has etcd's semantics: a dictionary and a counter. Every rule
does the same to both; after a power cut the store must be the model, plus possibly the leading part
of what was under way, neither answered nor refused.
"""

from __future__ import annotations

import asyncio
import copy
import random
from dataclasses import dataclass, field, replace

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sulina.errors import Retriable, SulinaError
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.lease import Lease
from sulina.metadata.store import (
    Absent,
    Compare,
    Delete,
    DeletePrefix,
    KeyValue,
    Listing,
    ModRevisionIs,
    Op,
    Put,
)
from sulina.runtime.memory_disk import MemoryDisk
from tests.metadata.manual_clock import ManualClock

KEYS = ["/a", "/a/", "/a/x", "/a/y", "/ab", "/b/x"]
keys = st.sampled_from(KEYS)
prefixes = st.sampled_from(["/a", "/a/", "/b/", "/none/"])
values = st.binary(max_size=8) | st.binary(min_size=600, max_size=1_500)
TTL = 10


@dataclass
class Model:
    """What the store should hold."""

    revision: int = 1
    items: dict[str, KeyValue] = field(default_factory=dict)

    def listing(self) -> Listing:
        items = (self.items[key] for key in sorted(self.items))
        return Listing(tuple(items), self.revision, more=False)

    def put(self, key: str, value: bytes, lease: int = 0) -> None:
        self.txn([Put(key, value, lease)])

    def txn(self, ops: list[Op]) -> None:
        revision = self.revision + 1
        changed = False
        for op in ops:
            match op:
                case Put(key, value, lease):
                    item = self.items.get(key, KeyValue(key, b"", revision, 0, 0, 0))
                    self.items[key] = replace(
                        item,
                        value=value,
                        mod_revision=revision,
                        version=item.version + 1,
                        lease=lease,
                    )
                    changed = True
                case Delete(key):
                    changed |= self.items.pop(key, None) is not None
                case DeletePrefix(prefix):
                    for key in [key for key in self.items if key.startswith(prefix)]:
                        del self.items[key]
                        changed = True
        self.revision += changed

    def end_lease(self, lease: int) -> None:
        self.txn([Delete(key) for key, item in self.items.items() if item.lease == lease])


class StoreMachine(RuleBasedStateMachine):
    """Does the same to a store and to a model."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = ManualClock()
        self.disk = MemoryDisk()
        self.model = Model()
        self.leases: list[Lease] = []

    @initialize(max_log_bytes=st.sampled_from([1, 2_000, 1_000_000]))
    def begin(self, max_log_bytes: int) -> None:
        self.max_log_bytes = max_log_bytes
        self.runner.run(self.open())

    async def open(self) -> None:
        self.store = await EmbeddedStore.open(
            self.clock, self.disk, max_log_bytes=self.max_log_bytes
        )

    def teardown(self) -> None:
        self.runner.run(self.store.close())
        self.runner.close()

    @rule(key=keys, value=values)
    def put(self, key: str, value: bytes) -> None:
        assert self.runner.run(self.store.put(key, value)) == self.model.revision + 1
        self.model.put(key, value)

    @rule(key=keys)
    def delete(self, key: str) -> None:
        assert self.runner.run(self.store.delete(key)) == (key in self.model.items)
        self.model.txn([Delete(key)])

    @rule(
        puts=st.dictionaries(st.sampled_from(["/t/1", "/t/2", "/u"]), values, max_size=3),
        gone=st.lists(keys, max_size=2),
        prefix=prefixes,
        guard=keys,
        stale=st.booleans(),
    )
    def transact(
        self, puts: dict[str, bytes], gone: list[str], prefix: str, guard: str, stale: bool
    ) -> None:
        item = self.model.items.get(guard)
        revision = item.mod_revision if item else 0
        compares: list[Compare] = [ModRevisionIs(guard, revision + stale), Absent("/never")]
        then: list[Op] = [Put(key, value) for key, value in puts.items()]
        then += [Delete(key) for key in gone]
        then.append(DeletePrefix(prefix))
        otherwise: list[Op] = [Delete(guard)]
        result = self.runner.run(self.store.txn(compares, then, otherwise))
        assert result.succeeded is not stale
        self.model.txn(otherwise if stale else then)
        assert result.revision == self.model.revision

    @rule(key=keys, value=values)
    def bind(self, key: str, value: bytes) -> None:
        async def work() -> None:
            lease = await self.store.grant(TTL)
            await self.store.put(key, value, lease=lease.id)
            self.leases.append(lease)

        self.runner.run(work())
        self.model.put(key, value, self.leases[-1].id)

    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        if self.leases:
            lease = self.leases.pop(data.draw(st.integers(0, len(self.leases) - 1)))
            self.runner.run(self.store.revoke_lease(lease.id))
            self.model.end_lease(lease.id)

    @rule()
    def run_out(self) -> None:
        self.runner.run(self.clock.advance(TTL + 1))
        for lease in self.leases:
            assert not lease.alive()
            self.model.end_lease(lease.id)
        self.leases.clear()

    @rule()
    def restart(self) -> None:
        async def work() -> None:
            await self.store.close()
            await self.open()

        self.runner.run(work())
        self.leases = [lease for lease in self.leases if lease.alive()]

    @rule(
        batch=st.lists(st.tuples(keys, values), min_size=1, max_size=5),
        steps=st.integers(0, 25),
        seed=st.integers(0, 1_000_000),
    )
    def power_cut(self, batch: list[tuple[str, bytes]], steps: int, seed: int) -> None:
        """Cut the power while several puts are on their way."""

        async def work() -> tuple[int, int, Listing]:
            tasks = []
            for key, value in batch:
                tasks.append(asyncio.create_task(self.store.put(key, value)))
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            answered = sum(task.done() for task in tasks)
            self.disk = self.disk.crash(random.Random(seed))
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            # Those that were on their way fail with an error that the caller can understand.
            assert all(isinstance(outcome, (int, SulinaError)) for outcome in outcomes)
            refused = sum(isinstance(outcome, Retriable) for outcome in outcomes)
            await self.store.close()
            await self.open()
            return answered, len(batch) - refused, await self.store.range("")

        answered, most, found = self.runner.run(work())
        possible = []
        for count in range(most + 1):
            if count >= answered:
                possible.append(copy.deepcopy(self.model))
            if count < most:
                self.model.put(*batch[count])
        [self.model] = [model for model in possible if model.listing() == found]

    @invariant()
    def the_store_is_the_model(self) -> None:
        assert self.runner.run(self.store.range("")) == self.model.listing()


StoreMachine.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
TestStoreMachine = StoreMachine.TestCase
