"""A few storage nodes on a simulated loop; a test can hold back any of their answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine
from random import Random
from typing import Any, TypeVar

from storage_grpc.entries import Entry
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.loss_record import LossRecord
from storage_grpc.node import FencedLedger, LocalNode, Node
from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings, QuorumTimeouts
from sulina.errors import Unavailable
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.memory_disk import MemoryDisk
from sulina.runtime.seam import Buffer
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop
from tests.simulation.switches import Switches, patched

_T = TypeVar("_T")
LEDGER = 7
_JOURNAL = JournalSettings(file_bytes=64 << 10, reserve_bytes=4 << 10, spare_bytes=1 << 10)


class GatedNode:
    """A ``Node`` in this process. Calls in ``held`` wait; while ``down``, every call fails."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.id = ""
        self.disk = MemoryDisk()
        self.store: JournalStore
        self.node: LocalNode
        self.held: set[str] = set()
        self.tail_bytes = 0
        """Maximum tail of a fence; 0 because most scenarios are about reads."""
        self.down = False
        self.life = ""
        self._starts = 0
        self._changed = asyncio.Event()

    async def start(self) -> None:
        self.store = await JournalStore.open(
            self.disk, SimClock(_loop()), _JOURNAL, Random(f"{self.name}/{self.disk!r}"[:8])
        )
        self.id = f"{self.name}@{self.store.incarnation[:8]}"
        self._starts += 1
        if self.store.unclean or not self.life:
            self.life = f"life {self._starts}"
        loss_record = LossRecord(may_have_lost=self.store.unclean, life=self.life)
        self.node = LocalNode(self.id, self.store, loss_record)
        self.node.tail_bytes = self.tail_bytes

    async def lose_power(self) -> None:
        """Crash and start again."""
        self.disk = self.disk.crash(Random(1))
        await self.start()

    def hold(self, *calls: str) -> None:
        self.held |= set(calls)

    def release(self, *calls: str) -> None:
        self.held -= set(calls)
        self._changed.set()
        self._changed = asyncio.Event()

    async def _gate(self, call: str) -> None:
        while call in self.held:
            await self._changed.wait()
        if self.down:
            raise Unavailable(f"{self.name} is down")

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        life = self.life  # a connection ends with the life of its node

        async def later() -> None:
            await self._gate("rewrite" if recovery else "append")
            if life != self.life:
                raise Unavailable(f"{self.name} may have lost a fence")
            await self.node.append(ledger, entry, lac, payload, recovery=recovery)

        return asyncio.ensure_future(later())

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        await self._gate("read")
        return await self.node.read(
            ledger, first, max_entries=max_entries, max_bytes=max_bytes, head=head
        )

    async def recovery_read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        await self._gate("read")
        return await self.node.recovery_read(
            ledger, first, max_entries=max_entries, max_bytes=max_bytes
        )

    async def fence(self, ledger: int) -> FencedLedger:
        await self._gate("fence")
        return await self.node.fence(ledger)

    async def delete(self, ledger: int) -> None:
        await self.node.delete(ledger)

    def has(self, entry: int) -> bool:
        """Whether it stores an entry of the ledger."""
        stat = self.store.stat(LEDGER)
        return stat is not None and stat.first_entry <= entry <= stat.last_entry


class QuorumBench:
    """Nodes a, b, c, ... (``Nodes``), a metadata store, and ledger clients of several brokers."""

    def __init__(self, count: int) -> None:
        self.nodes = [GatedNode("abcdefg"[number]) for number in range(count)]
        self.clock = SimClock(_loop())
        self.timeouts = QuorumTimeouts(append=1.0, call=1.0)
        self.metadata: EmbeddedStore
        self.tail_bytes = 0

    async def start(self) -> None:
        self.metadata = await EmbeddedStore.open(self.clock)
        for node in self.nodes:
            node.tail_bytes = self.tail_bytes
            await node.start()

    def ledgers(self) -> QuorumLedgers:
        """The ledger client of another broker."""
        return QuorumLedgers(self, self.metadata, self.clock, QuorumSettings(), self.timeouts)

    def get(self, member: str) -> Node | None:
        return next((node for node in self.nodes if node.id == member), None)

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        able = [node for node in self.nodes if node.id not in exclude and not node.down]
        return list(able[:count])

    def failed(self, member: str) -> None:
        """Ignored: nodes are always chosen in order."""

    async def settle(self, seconds: float = 0.01) -> None:
        """Let all ready callbacks run."""
        await self.clock.sleep(seconds)


def _loop() -> SimLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimLoop)
    return loop


def on_bench(
    scenario: Callable[[QuorumBench], Awaitable[_T]],
    count: int = 3,
    *,
    tail: int = 0,
    without: str = "",
) -> _T:
    """Run a scenario to its end on its own loop, without the safeguard named ``without``.

    Fences return up to ``tail`` bytes of entries.
    """

    async def run() -> _T:
        bench = QuorumBench(count)
        bench.tail_bytes = tail
        await bench.start()
        return await scenario(bench)

    loop = SimLoop()
    try:
        work: Coroutine[Any, Any, _T] = run()
        with patched(Switches().without(without) if without else Switches()):
            return loop.run_until_complete(work)
    finally:
        loop.finish()
