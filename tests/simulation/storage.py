"""Simulated storage nodes: the real journal and node, on a disk with injected faults.

``SimStorage`` is a machine with a disk, ``SimNode`` a broker's connection to it, and ``SimNodes``
all storage nodes of a broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random

from storage_grpc.entries import Entry, fenced
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.loss_record import LossRecord
from storage_grpc.node import FencedLedger, LocalNode, Node
from sulina.errors import StorageFailed, StorageFull, Unavailable
from sulina.runtime.memory_disk import MemoryDisk, MemoryDiskFile
from sulina.runtime.seam import Buffer
from tests.simulation.clock import SimClock
from tests.simulation.loop import SimLoop, SimMachine
from tests.simulation.network import SimConnection, SimEndpoint, SimNetwork
from tests.simulation.switches import Switches

_JOURNAL = JournalSettings(
    file_bytes=64 << 10,
    reserve_bytes=16 << 10,
    prewrite_after=20,
    spare_bytes=2 << 10,
    max_entry_bytes=1 << 20,
)
_AVOID_SECONDS = 1.0

Acknowledged = Callable[[str, int, int], None]
"""Called when a node has stored an entry: member, ledger, entry."""


class SimStorage:
    """One storage node; its disk survives its processes."""

    def __init__(
        self,
        name: str,
        loop: SimLoop,
        network: SimNetwork,
        chance: Random,
        switches: Switches,
        acknowledged: Acknowledged,
    ) -> None:
        self.name = name
        self.member = ""
        """Its name in ledger metadata."""
        self.endpoint = SimEndpoint(name)
        self.machine: SimMachine | None = None
        self.sync_seconds = 0.001
        self.stuck = False
        """Whether the disk fails: then every write is an error."""
        self.unclean = False
        """Whether the last start followed an unclean stop."""
        self._loop = loop
        self._network = network
        self._chance = chance
        self._switches = switches
        self._acknowledged = acknowledged
        self._store: JournalStore | None = None
        self._loss_record = LossRecord(may_have_lost=False)
        self._boots = 0
        self._starts = 0
        self.life = ""
        """The life of its last start, as brokers see it."""
        self.disk = self._new_disk()

    @property
    def up(self) -> bool:
        return self.endpoint.machine is not None

    def _new_disk(self) -> MemoryDisk:
        disk = MemoryDisk() if self._switches.sync_before_ack else LyingDisk()
        disk.before = self._before
        return disk

    async def _before(self, operation: str, name: str) -> None:
        if operation == "sync":
            await asyncio.sleep(self.sync_seconds * (0.5 + self._chance.random()))
        if self.stuck and operation in ("write", "sync", "reserve", "replace", "truncate"):
            raise StorageFailed(f"cannot {operation} {name}: input/output error")

    def start(self) -> None:
        """Open the journal on a new machine, then serve it."""
        assert self.machine is None
        self.machine = machine = SimMachine(self._loop, self.name)
        machine.spawn(self._serve(machine), "start")

    async def _serve(self, machine: SimMachine) -> None:
        try:
            store = await JournalStore.open(self.disk, SimClock(self._loop), _JOURNAL, self._chance)
            self._starts += 1
            life = f"life {self._starts}" if self._switches.life_in_appends else "the only life"
            loss_record = await LossRecord.open(
                self.disk, store.recovery, f"boot {self._boots}", life
            )
        except StorageFailed:
            self.kill()  # started again once the disk works
            return
        self._store = store
        self._loss_record = loss_record
        member = self.name
        if self._switches.incarnation_in_name:
            member = f"{self.name}@{store.incarnation[:8]}"
        self.unclean = loss_record.may_have_lost
        if not self._switches.unclean_is_unknown:
            loss_record = LossRecord(may_have_lost=False)
        kind = LocalNode if self._switches.durable_fence else ForgetfulNode
        self.member = member
        node = kind(member, store, loss_record)
        self.life = node.life
        # With tails there is usually nothing left to read, and some safeguards are about reads.
        if self._switches != Switches() or self._chance.random() < 0.5:
            node.tail_bytes = 0
        self.endpoint.up(
            machine, SimStorageService(node, store, self._switches, self._acknowledged)
        )

    def kill(self, *, power: bool = True) -> None:
        """Lose power: unsynced data may be torn or lost.

        Without ``power`` only the process dies, and everything it wrote is kept.
        """
        if self.machine is None:
            return
        self.machine.kill()
        self.endpoint.down()
        self._network.machine_died(self.machine)
        if power:
            self._boots += 1
            crashed = self.disk.crash(self._chance)
            disk = self._new_disk()
            disk._files = crashed._files
            disk.capacity = self.disk.capacity
            self.disk = disk
        self.machine = self._store = None

    def stop(self) -> None:
        """Stop cleanly, which takes a moment."""
        if self.machine is not None and self._store is not None:
            self.endpoint.down()
            self.machine.spawn(self._stop(self.machine, self._store), "stop")

    async def _stop(self, machine: SimMachine, store: JournalStore) -> None:
        clean = False
        with suppress(StorageFailed, StorageFull):
            await self._loss_record.save()
            clean = True
        await store.close(clean=clean)
        self._network.machine_died(machine)
        self.machine = self._store = None
        machine.kill()

    def wipe(self) -> None:
        """Lose the disk: the next start finds an empty one."""
        self.kill()
        self.disk = self._new_disk()

    def lose_tail(self, share: float) -> None:
        """Lose power and the end of the newest file, although it was synced."""
        if self.machine is None:
            self._boots += 1  # its process was dead before; the operating system still reboots
        self.kill()
        name = self._newest()
        if name is not None:
            content = self.disk.content(name)
            size = len(content.rstrip(b"\0"))
            cut = max(4096, size - int(size * share))
            if cut < len(content):
                self.disk.cut(name, cut)

    def flip(self) -> None:
        """Flip a bit somewhere in the newest file."""
        name = self._newest()
        if name is not None:
            size = len(self.disk.content(name).rstrip(b"\0"))
            if size:
                self.disk.flip(name, self._chance.randrange(size), self._chance.randrange(8))

    def _newest(self) -> str | None:
        names = [name for name in sorted(self.disk._files) if name.endswith(".log")]
        return names[-1] if names else None


class SimStorageService:
    """The service of a storage machine; it leaves out safeguards that are switched off."""

    def __init__(
        self,
        node: LocalNode,
        store: JournalStore,
        switches: Switches,
        acknowledged: Acknowledged,
    ) -> None:
        self._node = node
        self._store = store
        self._switches = switches
        self._acknowledged = acknowledged
        self._fencing: set[asyncio.Task[FencedLedger]] = set()

    def _check(self, member: str) -> None:
        if member != self._node.id:
            raise Unavailable(f"{member} no longer exists: {self._node.id} replaced it")

    def append(
        self,
        member: str,
        life: str,
        ledger: int,
        entry: int,
        lac: int,
        payload: Buffer,
        recovery: bool,
    ) -> asyncio.Future[None]:
        try:
            self._check(member)
            if life != self._node.life:
                raise Unavailable(f"{member} may have lost a fence: call Hello again")
        except Unavailable as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        done = self._node.append(ledger, entry, lac, payload, recovery=recovery)

        def stored(result: asyncio.Future[None]) -> None:
            if not result.cancelled() and result.exception() is None:
                self._acknowledged(member, ledger, entry)

        done.add_done_callback(stored)
        return done

    async def read(
        self, member: str, ledger: int, first: int, entries: int, size: int, head: int | None
    ) -> list[Entry]:
        self._check(member)
        found = await self._node.read(ledger, first, max_entries=entries, max_bytes=size, head=head)
        return _copied(found)

    async def recovery_read(
        self, member: str, ledger: int, first: int, entries: int, size: int
    ) -> list[Entry]:
        self._check(member)
        read = self._node.read if self._skips_fence(ledger) else self._node.recovery_read
        found = _copied(await read(ledger, first, max_entries=entries, max_bytes=size))
        self._shown(member, found)
        return found

    def _shown(self, member: str, found: Iterable[Entry]) -> None:
        for entry in found:
            # What it returns is durable, even if the node went down before acknowledging it: a
            # recovery may rely on it.
            self._acknowledged(member, entry.ledger, entry.entry)

    async def fence(self, member: str, ledger: int) -> FencedLedger:
        self._check(member)
        if self._skips_fence(ledger):
            return self._node.known_of(ledger)
        fenced = await self._node.fence(ledger)
        self._shown(member, fenced.tail)
        return replace(fenced, tail=tuple(_copied(fenced.tail)))

    def _skips_fence(self, ledger: int) -> bool:
        """Whether a safeguard is off: no fence, or one that is made after its answer."""
        if not self._switches.fence_unknown_ledger and self._store.stat(ledger) is None:
            return True
        if not self._switches.ordered_fence:
            task = asyncio.create_task(self._node.fence(ledger))
            self._fencing.add(task)
            task.add_done_callback(self._fenced)
            return True
        return False

    def _fenced(self, task: asyncio.Task[FencedLedger]) -> None:
        self._fencing.discard(task)
        if not task.cancelled():
            task.exception()

    async def delete(self, member: str, ledger: int) -> None:
        self._check(member)
        await self._node.delete(ledger)


def _copied(entries: Iterable[Entry]) -> list[Entry]:
    return [Entry(e.ledger, e.entry, e.lac, bytes(e.payload)) for e in entries]


class ForgetfulNode(LocalNode):
    """A node that keeps fences in memory only."""

    def __init__(self, id: str, store: JournalStore, loss_record: LossRecord) -> None:
        super().__init__(id, store, loss_record)
        self._fences: set[int] = set()

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        if ledger in self._fences and not recovery:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(fenced(ledger))
            return failed
        return super().append(ledger, entry, lac, payload, recovery=recovery)

    async def recovery_read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        self._fences.add(ledger)
        return await self.read(ledger, first, max_entries=max_entries, max_bytes=max_bytes)

    async def fence(self, ledger: int) -> FencedLedger:
        self._fences.add(ledger)
        return self.known_of(ledger)


class LyingDisk(MemoryDisk):
    """A disk that reports a sync without doing it."""

    async def open(self, name: str, *, create: bool = False) -> MemoryDiskFile:
        file = await super().open(name, create=create)
        return LyingFile(self, name, file._content)


class LyingFile(MemoryDiskFile):
    """A file of a ``LyingDisk``."""

    async def sync(self) -> None:
        await self._disk._enter("sync", self._name)
        if self._name.endswith(".log") and len(self._content.written) > 4096:
            # Except file headers: otherwise nothing would be left to check after a crash.
            start = 4096
            kept = [(a, b) for a, b in self._content.unsynced if b > start]
            self._content.unsynced = [(a, b) for a, b in self._content.unsynced if b <= start]
            self._content.sync()
            self._content.unsynced = kept
            return
        self._content.sync()


class SimNode:
    """``Node`` over the network. Appends share one connection and keep their order."""

    def __init__(
        self, id: str, life: str, network: SimNetwork, machine: SimMachine, server: SimEndpoint
    ) -> None:
        self.id = id
        self.life = life
        self._network = network
        self._machine = machine
        self._server = server
        self._connection: SimConnection | None = None

    def _connected(self) -> SimConnection:
        if self._connection is None or not self._connection.open:
            self._connection = self._network.connect(self._machine, self._server)
        return self._connection

    def append(
        self, ledger: int, entry: int, lac: int, payload: Buffer, *, recovery: bool = False
    ) -> asyncio.Future[None]:
        data = bytes(payload)
        return self._connected().request(
            lambda service: service.append(self.id, self.life, ledger, entry, lac, data, recovery),
            ordered=True,
            ordered_answer=not self._network.unordered_answers,
        )

    async def read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int, head: int | None = None
    ) -> list[Entry]:
        answer: asyncio.Future[list[Entry]] = self._connected().request(
            lambda service: service.read(self.id, ledger, first, max_entries, max_bytes, head)
        )
        return await answer

    async def recovery_read(
        self, ledger: int, first: int, *, max_entries: int, max_bytes: int
    ) -> list[Entry]:
        answer: asyncio.Future[list[Entry]] = self._connected().request(
            lambda service: service.recovery_read(self.id, ledger, first, max_entries, max_bytes)
        )
        return await answer

    async def fence(self, ledger: int) -> FencedLedger:
        answer: asyncio.Future[FencedLedger] = self._connected().request(
            lambda service: service.fence(self.id, ledger)
        )
        return await answer

    async def delete(self, ledger: int) -> None:
        answer: asyncio.Future[None] = self._connected().request(
            lambda service: service.delete(self.id, ledger)
        )
        await answer


class SimNodes:
    """``Nodes`` of one broker: all nodes, and which failed recently."""

    def __init__(
        self,
        network: SimNetwork,
        machine: SimMachine,
        storages: Sequence[SimStorage],
        chance: Random,
    ) -> None:
        self._network = network
        self._machine = machine
        self._storages = storages
        self._chance = chance
        self._known: dict[str, SimNode] = {}
        self._avoid: dict[str, float] = {}

    def get(self, member: str) -> Node | None:
        for storage in self._storages:
            if storage.member == member:
                known = self._known.get(member)
                if known is None or known.life != storage.life:
                    known = self._known[member] = SimNode(
                        member, storage.life, self._network, self._machine, storage.endpoint
                    )
                return known
        return None

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        now = self._network.loop.time()
        healthy = [
            storage.member
            for storage in self._storages
            if storage.member
            and storage.member not in exclude
            and self._avoid.get(storage.member, 0.0) <= now
        ]
        chosen = self._chance.sample(healthy, min(count, len(healthy)))
        return [node for member in chosen if (node := self.get(member)) is not None]

    def failed(self, member: str) -> None:
        self._avoid[member] = self._network.loop.time() + _AVOID_SECONDS
