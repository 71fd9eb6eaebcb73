"""``python -m benchmarks.freshness``: how soon records are in objects, and how many that makes.

One broker in this process, with objects in a folder. A producer publishes at a steady rate to a
topic with a freshness; ledgers become objects, and small objects are merged. Reports the time from
publishing a record until its object was verified and named, and objects per GB before and after
merging. Publish times within an object are taken as evenly spread.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

import sulina
from benchmarks.program import option, parse
from broker_containers.assembly.running import DoorSettings
from broker_containers.assembly.single import run_embedded
from broker_containers.broker.broker import Broker
from broker_containers.doors.listen import Listen
from broker_containers.topic_log.managed_ledger import ManagedLedger
from broker_containers.topics.merging import mergeable, target_bytes
from sulina.names import TopicName
from sulina.runtime.real_clock import RealClock

_SAMPLES: Final = 20
_LOOK_SECONDS: Final = 0.02


@dataclass(frozen=True, slots=True)
class FreshnessOptions:
    """The command line's options."""

    freshness: str = option("60,10,2", "seconds of freshness to measure, one after the other")
    seconds: float = option(30.0, "seconds of publishing, for each")
    rate: int = option(2000, "records per second")
    size: int = option(200, "bytes per payload")
    json: bool = option(False, "print the results as JSON")


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a freshness gave."""

    freshness: float
    """In seconds, as all of these."""
    p50: float
    p99: float
    objects: int
    merged: int
    """Objects that are left after merging."""
    per_gb: float
    merged_per_gb: float


def main(arguments: Sequence[str]) -> int:
    """Measure and print."""
    options = parse(FreshnessOptions, "freshness", __doc__, arguments)
    wanted = [float(each) for each in options.freshness.split(",")]
    found = [asyncio.run(_measure(options, seconds)) for seconds in wanted]
    if options.json:
        sys.stdout.write(json.dumps([asdict(each) for each in found]) + "\n")
        return 0
    table = Table(*("freshness", "p50", "p99", "objects per GB", "after merging"))
    for each in found:
        times = (f"{value:.1f} s" for value in (each.freshness, each.p50, each.p99))
        table.add_row(*times, f"{each.per_gb:,.0f}", f"{each.merged_per_gb:,.0f}")
    Console().print(table)
    return 0


async def _measure(options: FreshnessOptions, freshness: float) -> Freshness:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        doors = DoorSettings(Listen(port=0))
        tier = f"file://{folder / 'objects'}"
        async with (
            run_embedded(folder / "data", doors, tier=tier) as server,
            sulina.connect(server.addresses.url) as client,
        ):
            return await _measure_in(options, freshness, server.broker, client)


async def _measure_in(
    options: FreshnessOptions, freshness: float, broker: Broker, client: sulina.Client
) -> Freshness:
    name = "/default/fresh"
    await client.admin.topics.create(name)
    await client.admin.topics.policy(name, freshness_ms=round(freshness * 1000))
    topic = await broker.topic(TopicName.parse(name))
    log = topic.log
    assert isinstance(log, ManagedLedger)
    ages: list[float] = []
    watching = asyncio.create_task(_watch(log, ages))
    async with client.producer(name) as producer:
        await _publish(producer, options)
    async with asyncio.timeout(10 * freshness + 60):
        while any(ref.tiered is None for ref in log.refs if ref.bytes):
            await asyncio.sleep(_LOOK_SECONDS)
    watching.cancel()
    objects, size = broker.tiering.stored()
    broker.tiering.settings = replace(broker.tiering.settings, local_seconds=0.0)
    await broker.tiering.drop_local(log)
    target = target_bytes(topic.policy, broker.tiering.settings)
    while mergeable(log.refs, target) or log.replacement is not None:
        if not broker.replacing.is_busy(log.topic):
            await broker.merging.merge(log, target)
        await asyncio.sleep(0)
    merged, merged_size = broker.tiering.stored()
    ages.sort()
    return Freshness(
        freshness,
        ages[len(ages) // 2],
        ages[len(ages) * 99 // 100],
        objects,
        merged,
        objects / size * 1e9,
        merged / merged_size * 1e9,
    )


async def _publish(producer: sulina.Producer, options: FreshnessOptions) -> None:
    chance, clock = random.Random(7), RealClock()
    began = clock.now()
    for number in range(round(options.rate * options.seconds)):
        ahead = number / options.rate - (clock.now() - began)
        if ahead > 0.005:
            await asyncio.sleep(ahead)
        await producer.send(chance.randbytes(options.size))


async def _watch(log: ManagedLedger, ages: list[float]) -> None:
    """The ages of records when their ledger gets an object, as evenly spread samples."""
    clock, seen = RealClock(), set[int]()
    while True:
        now = clock.wall_us()
        for ref in log.refs:
            if ref.tiered is not None and ref.id not in seen:
                seen.add(ref.id)
                span = ref.last_time_us - ref.first_time_us
                ages += [
                    (now - ref.first_time_us - span * step / (_SAMPLES - 1)) / 1e6
                    for step in range(_SAMPLES)
                ]
        await asyncio.sleep(_LOOK_SECONDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
