"""A broker with a cold tier, in memory: every part is real, and each step can be interrupted.

A process is a broker over stores that outlive it. Nothing runs by itself: tests call the rounds.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from broker_containers.broker.broker import Broker
from broker_containers.broker.settings import BrokerSettings
from broker_containers.topic_log.ledger_settings import LedgerSettings
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.tiering import TieringSettings
from storage_grpc.ledgers import EmbeddedLedgers
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.tier.local import LocalTier
from sulina.metadata.embedded import EmbeddedStore
from sulina.metadata.keys import ledgers, namespaces
from sulina.metadata.keys.ledgers import LedgerRef
from sulina.names import TopicName
from sulina.objects.memory import MemoryStore
from sulina.objects.store import ObjectInfo, ObjectStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.seam import run_inline
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_frame
from tests.support.logs import append

TOPIC = TopicName.parse("/default/orders")
SETTINGS = BrokerSettings(
    ledger=LedgerSettings(roll_bytes=2000),
    tier=TieringSettings(local_seconds=0.0),
)


class MovableClock(RealClock):
    """The real clock, which a test can also move forward."""

    ahead = 0.0

    def move(self, seconds: float) -> None:
        self.ahead += seconds

    def now(self) -> float:
        return super().now() + self.ahead

    def wall_us(self) -> int:
        return super().wall_us() + int(self.ahead * 1e6)


class Stopped(BaseException):
    """The process ends here."""


Hook = Callable[[str, str], Awaitable[None]]


async def _nothing(moment: str, what: str) -> None:
    pass


class HookedStore:
    """An object store with a hook that may fail before or after each call."""

    def __init__(self, inner: ObjectStore) -> None:
        self.inner = inner
        self.hook: Hook = _nothing
        self.calls: list[tuple[str, str]] = []

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        await self.hook("before put", key)
        self.calls.append(("put", key))
        info = await self.inner.put(key, chunks)
        await self.hook("after put", key)
        return info

    async def get(self, key: str, start: int, end: int) -> bytes:
        await self.hook("before get", key)
        self.calls.append(("get", key))
        return await self.inner.get(key, start, end)

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        await self.hook("before tail", key)
        self.calls.append(("tail", key))
        return await self.inner.tail(key, length)

    async def info(self, key: str) -> ObjectInfo | None:
        return await self.inner.info(key)

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        return await self.inner.list(prefix, after=after, limit=limit)

    async def delete(self, key: str) -> None:
        await self.hook("before delete", key)
        self.calls.append(("delete", key))
        await self.inner.delete(key)

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return 0

    async def close(self) -> None:
        pass


class HookedLedgers(EmbeddedLedgers):
    """Ledgers with a hook that may stop the process before or after a deletion."""

    hook: Hook = staticmethod(_nothing)

    async def delete(self, ledger: int) -> None:
        await self.hook("before entries", str(ledger))
        await super().delete(ledger)
        await self.hook("after entries", str(ledger))


@dataclass
class TierBench:
    """What survives a process: entries, metadata, objects, time."""

    metadata: EmbeddedStore
    clock: MovableClock = field(default_factory=MovableClock)
    entries: MemoryEntryStore = field(default_factory=MemoryEntryStore)
    settings: BrokerSettings = SETTINGS
    row_group_bytes: int = 16 << 20

    def __post_init__(self) -> None:
        self.memory = MemoryStore(self.clock.wall_us)
        self.objects = HookedStore(self.memory)
        self.tiers: list[LocalTier] = []
        self.sequences: dict[str, int] = {}
        self.published: list[bytes] = []

    def broker(self, *, tier: bool = True) -> Broker:
        """The broker of a new process."""
        held = HookedLedgers(self.entries)
        self.ledgers = held
        cold = None
        if tier:
            cold = LocalTier(self.objects, held, run_inline, row_group_bytes=self.row_group_bytes)
            self.tiers.append(cold)
        return Broker(held, self.metadata, self.clock, self.settings, tier=cold)

    async def log(self, broker: Broker, topic: TopicName = TOPIC) -> ManagedLedger:
        log = (await broker.topic(topic)).log
        assert isinstance(log, ManagedLedger)
        return log

    async def publish(
        self, log: ManagedLedger, count: int, *, producer: str = "p", size: int = 300
    ) -> None:
        """Frames of three records each."""
        for _ in range(count):
            first = self.sequences.get(producer, 0)
            payloads = [f"{producer}-{first + n}-".encode().ljust(size, b"x") for n in range(3)]
            now = self.clock.wall_us()
            times = [now, now + 1, now + 2]
            await append(log, encode_frame(Origin(producer), first, payloads, times))
            self.sequences[producer] = first + 3
            self.published += payloads

    async def with_records(self, frames: int) -> tuple[Broker, ManagedLedger]:
        """A new broker, and its log with so many frames."""
        broker = self.broker()
        log = await self.log(broker)
        await self.publish(log, frames)
        return broker, log

    async def publish_one(self, log: ManagedLedger, producer: str, payload: bytes) -> None:
        """A frame with one record."""
        await append(log, encode_frame(Origin(producer), 0, [payload], self.clock.wall_us()))
        self.published.append(payload)

    async def refs(self, topic: TopicName = TOPIC) -> Sequence[LedgerRef]:
        """The ledgers in the metadata."""
        return (await ledgers.get(self.metadata, topic)).list.ledgers

    async def keys(self) -> list[str]:
        return [info.key for info in await self.objects.inner.list("ledgers/")]

    async def close(self) -> None:
        for tier in self.tiers:
            await tier.close()
        await self.metadata.close()


async def make_world(**more: object) -> TierBench:
    clock = MovableClock()
    metadata = await EmbeddedStore.open(clock)
    await namespaces.create_first(metadata)
    return TierBench(metadata, clock, **more)  # type: ignore[arg-type]


async def read_all(log: ManagedLedger, offset: int = 0) -> list[bytes]:
    """All payloads from an offset on, with their offsets checked."""
    reader = log.reader(offset)
    found: list[bytes] = []
    while frames := await reader.read(1000):
        for frame in frames:
            payloads = Frame(frame.data).payloads
            expected = offset + len(found)
            skipped = max(0, expected - frame.base)
            assert frame.base <= expected, "no gap and no repeat"
            found += map(bytes, payloads[skipped:])
    return found
