"""``python -m benchmarks.tier``: closed ledgers to an object store and back, on one machine.

Runs an S3 server (or another store) and ``sulina up --tier`` in separate processes. A producer
publishes for some seconds while ledgers are tiered; then the rest is tiered, and the whole topic,
of which no entry is left on the node, is replayed. In the same run it measures the store alone:
puts of objects, and ranged reads of row groups of the same objects, in turns with the replays.
Payloads are random bytes, so that an object is as large as its frames. MB is 10^6 bytes.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

import sulina
from benchmarks.program import option, parse
from benchmarks.systems.base import SystemServer
from benchmarks.systems.sulina_ import sulina_command
from benchmarks.tier_lists import ListCost, measure_lists
from localstack.emulators.server import HOST
from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import key_of
from sulina.lake.summary import ObjectHead
from sulina.names import TopicName
from sulina.objects.opening import open_store
from sulina.objects.store import ObjectStore
from sulina.runtime.real_clock import RealClock
from sulina.runtime.threads import ThreadRunner
from sulina.wire.header import parse_header

TOPIC: Final = "/default/tiered"
BUCKET: Final = "benchmark"
GOAL_REPLAY: Final = 0.5
"""The minimum share of the plain ranged-read rate."""
_STORES: Final = ("seaweedfs", "localstack", "moto", "folder")
_BATCH: Final = 256
_TURNS: Final = 5
_START_SECONDS: Final = 60.0
_MB: Final = 1e6


@dataclass(frozen=True, slots=True)
class TierOptions:
    """The command line's options."""

    store: str = option("seaweedfs", "object store", choices=_STORES)
    seconds: float = option(10.0, "seconds of publishing")
    ledger_mb: int = option(64, "MB at which a ledger is closed")
    size: int = option(1000, "bytes per payload")
    out: str = option("", "data folder; a temporary one if empty")
    json: bool = option(False, "print the result as JSON")


@dataclass(frozen=True, slots=True)
class TierRates:
    """Rates in MB/s, of payloads or of an object's bytes."""

    store: str
    published: int
    """Total bytes of payloads."""
    publish: float
    tiered: float
    """From the first record until the last object is verified and its entries are deleted."""
    drain_seconds: float
    """The part of it after the last record."""
    most_behind: int
    """The maximum bytes of closed ledgers that were not tiered yet."""
    replay_at_node: float
    """Frames decoded from objects, in one process, in turns with the plain reads."""
    replay: float
    """The same through the broker, to a consumer that decodes every message."""
    put: float
    read: float
    objects: int
    lists: ListCost

    @property
    def replay_share(self) -> float:
        """Of the plain ranged-read rate, at the node."""
        return self.replay_at_node / self.read


async def measure(options: TierOptions, folder: Path) -> TierRates:
    """Run all measurements once."""
    with _server(options.store, folder) as (url, variables):
        os.environ.update(variables)
        put = await _put_rate(url, options.ledger_mb << 20)
        with _broker(folder, url) as broker:
            async with sulina.connect(broker, operation_timeout=60) as client:
                await client.admin.config.set("ledger.roll_bytes", options.ledger_mb << 20)
                begun = time.perf_counter()
                published, behind = await _publish(client, options.seconds, options.size)
                ended = time.perf_counter()
                objects = await _flush(client)
                drained = time.perf_counter()
                read, at_node, replay = await _read_rates(client, url, published)
    return TierRates(
        options.store,
        published,
        published / (ended - begun) / _MB,
        published / (drained - begun) / _MB,
        drained - ended,
        behind,
        at_node,
        replay,
        put,
        read,
        objects,
        await measure_lists(),
    )


# ---- servers ----


@contextmanager
def _server(store: str, folder: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The URL of an object store, and the environment variables for its credentials."""
    if store == "folder":
        yield f"file://{folder / 'objects'}", {}
        return
    from localstack.emulators.aws import running_localstack
    from localstack.emulators.moto import running_moto
    from localstack.emulators.s3 import make_bucket
    from localstack.emulators.seaweedfs import running_seaweedfs

    running = {
        "seaweedfs": running_seaweedfs,
        "localstack": running_localstack,
        "moto": running_moto,
    }[store]
    with running(folder / store) as server:
        make_bucket(server.url, server.credentials, BUCKET)
        yield f"s3://{BUCKET}/tier?endpoint={server.url}", server.credentials.variables


@contextmanager
def _broker(folder: Path, url: str) -> Iterator[str]:
    """Run ``sulina up``; yields its URL."""
    server = SystemServer(folder / "broker.log")
    command = sulina_command("up", folder / "data", server.port)
    server.run([*command, "--grpc-port", "0", "--tier", url, "--tier-local", "0"])
    try:
        server.started(_START_SECONDS)
        yield f"sulina://{HOST}:{server.port}"
    finally:
        server.stop()


# ---- the store alone ----


async def _put_rate(url: str, size: int) -> float:
    """The rate of putting objects of a ledger's size, one after the other."""
    clock, count = RealClock(), 3
    data = random.Random(1).randbytes(size)
    async with open_store(url, clock, random.Random(2)) as store:
        begun = time.perf_counter()
        for number in range(count):
            await store.put(f"yardstick/{number}", _chunks(data))
        put = count * size / (time.perf_counter() - begun) / _MB
        for number in range(count):
            await store.delete(f"yardstick/{number}")
    return put


async def _chunks(data: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(data), 1 << 20):
        yield data[start : start + (1 << 20)]


async def _read_plainly(store: ObjectStore, spans: Sequence[tuple[str, int]]) -> float:
    """The rate of reading objects in ranges of a row group's size."""
    begun = time.perf_counter()
    for key, size in spans:
        for start in range(0, size, 16 << 20):
            await store.get(key, start, min(size, start + (16 << 20)))
    return sum(size for _, size in spans) / (time.perf_counter() - begun) / _MB


# ---- Sulina ----


async def _publish(client: sulina.Client, seconds: float, size: int) -> tuple[int, int]:
    chance = random.Random(3)
    pool = [[chance.randbytes(size) for _ in range(_BATCH)] for _ in range(32)]
    published = behind = 0
    async with client.producer(TOPIC) as producer:
        end = time.perf_counter() + seconds
        look = time.perf_counter() + 1
        while time.perf_counter() < end:
            await producer.send_many(pool[published // (_BATCH * size) % len(pool)])
            published += _BATCH * size
            if time.perf_counter() > look:
                look = time.perf_counter() + 1
                behind = max(behind, await _behind(client))
        await producer.flush()
    return published, behind


async def _behind(client: sulina.Client) -> int:
    rows = await client.admin.ledgers.list(TOPIC)
    return sum(row.bytes for row in rows if row.state == "closed" and row.object_bytes is None)


async def _flush(client: sulina.Client) -> int:
    """Wait until the topic consists only of objects; returns their number."""
    await client.admin.ledgers.offload(TOPIC)
    while True:
        rows = await client.admin.ledgers.list(TOPIC)
        if rows and all(row.where == "object" for row in rows if row.records):
            return len(rows)
        await asyncio.sleep(0.05)


async def _replay(client: sulina.Client, subscription: str, published: int) -> float:
    """Replay the topic from the beginning."""
    got = 0
    begun = time.perf_counter()
    async with client.consumer(TOPIC, subscription, start=sulina.Start.earliest()) as consumer:
        async for batch in consumer.batches():
            got += sum(map(len, batch.payloads))
            await consumer.ack(batch)
            if got >= published:
                break
    assert got == published, f"{got} bytes came back of {published}"
    return got / (time.perf_counter() - begun) / _MB


async def _read_rates(
    client: sulina.Client, url: str, published: int
) -> tuple[float, float, float]:
    """Read the same objects plainly, at a node, and with a consumer, in turns.

    Returns the medians.
    """
    rows = [row for row in await client.admin.ledgers.list(TOPIC) if row.records]
    ledgers = [
        (ObjectHead(TopicName.parse(TOPIC), row.ledger, row.first_offset), row.last_offset or 0)
        for row in rows
    ]
    sizes = [row.object_bytes or 0 for row in rows]
    spans = [(key_of(head), size) for (head, _), size in zip(ledgers, sizes, strict=True)]
    plain, at_node, consumed = [], [], []
    async with open_store(url, RealClock(), random.Random(4)) as store:
        for turn in range(_TURNS):
            plain.append(await _read_plainly(store, spans))
            at_node.append(await _replay_at_node(store, ledgers))
            consumed.append(await _replay(client, f"replay-{turn}", published))
    return statistics.median(plain), statistics.median(at_node), statistics.median(consumed)


async def _replay_at_node(store: ObjectStore, ledgers: Sequence[tuple[ObjectHead, int]]) -> float:
    """Fetch, verify and decode objects, starting with empty caches."""
    got = 0
    objects = ObjectReader(store, ThreadRunner(4))
    begun = time.perf_counter()
    for number, (head, last) in enumerate(ledgers):
        then = ledgers[number + 1][0] if number + 1 < len(ledgers) else None
        offset = head.first_offset
        while offset <= last:
            frames = await objects.read(head, offset, 8 << 20, then)
            got += sum(map(len, frames))
            offset = parse_header(frames[-1]).next_offset
    seconds = time.perf_counter() - begun
    await objects.close()
    return got / seconds / _MB


# ---- the report ----


def show(result: TierRates, console: Console) -> None:
    """Print the results as a table."""
    table = Table("measure", "figure", "of the store's own")
    table.add_row("plain puts", f"{result.put:,.0f} MB/s", "")
    table.add_row("plain ranged reads", f"{result.read:,.0f} MB/s", "")
    table.add_row("published", f"{result.publish:,.0f} MB/s", "")
    share = result.tiered / result.put
    table.add_row("tiered meanwhile", f"{result.tiered:,.0f} MB/s", f"{share:.0%} of puts")
    behind = f"{result.most_behind / _MB:,.0f} MB, {result.drain_seconds:.1f} s at the end"
    table.add_row("behind, at most", behind, "")
    at_node = f"{result.replay_share:.0%} of reads"
    table.add_row("replayed at the node", f"{result.replay_at_node:,.0f} MB/s", at_node)
    share = result.replay / result.read
    table.add_row("replayed by a consumer", f"{result.replay:,.0f} MB/s", f"{share:.0%} of reads")
    lists = result.lists
    table.add_row(
        f"{lists.ledgers:,} ledgers",
        f"read in {lists.read_seconds:.2f} s, planned in {lists.plan_seconds:.3f} s",
        f"{lists.bytes_each:.0f} bytes each, {lists.change_bytes:,} a change",
    )
    console.print(table)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark; returns 0 if replay meets its goal."""
    options = parse(TierOptions, "tier", __doc__, arguments)
    place: AbstractContextManager[str] = (
        nullcontext(options.out) if options.out else tempfile.TemporaryDirectory()
    )
    with place as folder:
        Path(folder).mkdir(parents=True, exist_ok=True)
        result = asyncio.run(measure(options, Path(folder)))
    if options.json:
        sys.stdout.write(json.dumps(asdict(result), indent=2) + "\n")
    else:
        show(result, Console())
    return 0 if result.replay_share >= GOAL_REPLAY else 1


if __name__ == "__main__":
    sys.exit(main())
