"""``python -m benchmarks.compaction_latency``: publish latency, with and without compaction.

One ``sulina up`` with objects in a folder, in a process of its own. A topic is filled with records
of random keys and tiered. Then records are published to another topic at a steady rate, first
without, then with a compaction of the first topic under way in the same process, in turns. Latency
is the time from the moment at which a record was due to its acknowledgement.
"""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.table import Table

import sulina
from benchmarks.program import option, parse
from sulina.lake.layout import is_notice

_LOOK_SECONDS: Final = 0.05
_MOST_WAITING: Final = 20_000


@dataclass(frozen=True, slots=True)
class LatencyOptions:
    """The command line's options."""

    records: int = option(1_000_000, "records of each topic to compact")
    keys: int = option(100_000, "keys")
    size: int = option(100, "bytes per payload")
    objects: int = option(10, "objects of each topic")
    rate: int = option(1000, "records per second")
    rounds: int = option(3, "compactions, and measurements without")
    json: bool = option(False, "print the result as JSON")


@dataclass(frozen=True, slots=True)
class Latency:
    """Of one condition, in milliseconds."""

    compacting: bool
    seconds: float
    """How long it was measured: in total, over all rounds."""
    records: int
    p50: float
    p99: float
    worst: float


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = parse(LatencyOptions, "compaction_latency", __doc__, arguments)
    with tempfile.TemporaryDirectory(prefix="sulina-latency-") as place:
        found = _with_broker(options, Path(place))
    if options.json:
        sys.stdout.write(json.dumps([asdict(each) for each in found]) + "\n")
        return 0
    table = Table("", "seconds", "records", "p50", "p99", "worst")
    for each in found:
        name = "compaction under way" if each.compacting else "without"
        times = (f"{value:.2f} ms" for value in (each.p50, each.p99, each.worst))
        table.add_row(name, f"{each.seconds:.1f}", f"{each.records:,}", *times)
    Console().print(table)
    return 0


def _with_broker(options: LatencyOptions, folder: Path) -> list[Latency]:
    (folder / "objects").mkdir()
    command = [
        *(sys.executable, "-m", "sulina.cli", "up", "--port", "0", "--json"),
        *("--data", str(folder / "data"), "--tier", f"file://{folder / 'objects'}"),
        *("--tier-local", "0"),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as broker:
        try:
            assert broker.stdout is not None
            url = json.loads(broker.stdout.readline())["url"]
            return asyncio.run(_measure(options, url, folder / "objects"))
        finally:
            broker.terminate()


async def _measure(options: LatencyOptions, url: str, folder: Path) -> list[Latency]:
    quiet: list[float] = []
    busy: list[float] = []
    seconds = [0.0, 0.0]
    async with sulina.connect(url) as client, client.producer("/default/measured") as producer:
        for number in range(options.rounds):
            topic = f"/default/compacted-{number}"
            await _fill(client, topic, options, random.Random(number))
            before = _notices(folder)
            await client.admin.topics.policy(topic, compact=True)
            while _notices(folder) == before:  # the first thing that it writes
                await asyncio.sleep(_LOOK_SECONDS)
            began = time.perf_counter()
            task = asyncio.create_task(_compacted(client, topic))
            busy += await _publish(producer, options, task)
            took = time.perf_counter() - began
            rest = asyncio.create_task(asyncio.sleep(took))
            quiet += await _publish(producer, options, rest)
            seconds = [seconds[0] + took, seconds[1] + took]
    return [_latency(False, seconds[1], quiet), _latency(True, seconds[0], busy)]


async def _fill(
    client: sulina.Client, topic: str, options: LatencyOptions, chance: random.Random
) -> None:
    """Publish records in several objects; the newest is not compacted, so it has only one."""
    each = options.records // options.objects
    async with client.producer(topic) as producer:
        for count in [each] * options.objects + [1]:
            keys = [b"key-%d" % chance.randrange(options.keys) for _ in range(count)]
            body = chance.randbytes(options.size)
            await producer.send_many([body] * count, keys=keys)
            await producer.flush()
            await client.admin.ledgers.offload(topic)
    while any(row.where != "object" for row in await client.admin.ledgers.list(topic)):
        await asyncio.sleep(_LOOK_SECONDS)


def _notices(folder: Path) -> int:
    return sum(1 for path in folder.rglob("*") if is_notice(str(path.relative_to(folder))))


async def _compacted(client: sulina.Client, topic: str) -> None:
    """Wait until one object has replaced the others: what follows is a pause, and a look."""
    before = len(await client.admin.ledgers.list(topic))
    while len(await client.admin.ledgers.list(topic)) == before:
        await asyncio.sleep(_LOOK_SECONDS)


async def _publish(
    producer: sulina.Producer, options: LatencyOptions, until: asyncio.Task[Any]
) -> list[float]:
    """Latencies in milliseconds of records that are published while a task runs."""
    found: list[float] = []
    waiting: set[asyncio.Task[None]] = set()

    async def one(due: float) -> None:
        await (await producer.send(b"x" * options.size))
        found.append((time.perf_counter() - due) * 1000)

    began, number = time.perf_counter(), 0
    while not until.done() and len(waiting) < _MOST_WAITING:
        due = began + number / options.rate
        if (ahead := due - time.perf_counter()) > 0:
            await asyncio.sleep(ahead)
        task = asyncio.create_task(one(due))
        waiting.add(task)
        task.add_done_callback(waiting.discard)
        number += 1
    await asyncio.gather(*waiting)
    await until
    return found


def _latency(compacting: bool, seconds: float, found: list[float]) -> Latency:
    found.sort()
    return Latency(
        compacting,
        seconds,
        len(found),
        found[len(found) // 2],
        found[len(found) * 99 // 100],
        found[-1],
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
