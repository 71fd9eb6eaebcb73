"""The steps of the proof: publish while things break, let committers follow, compare."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import sulina
from sulina.names import TopicName
from sulina.tables.catalogs import open_catalog
from sulina.tables.iceberg import find_table
from sulina.tables.objects import LakePlace
from sulina.tables.tables import DATABASE
from tests.end_to_end.clients import replay
from tests.end_to_end.deployments import run_sulina
from tests.end_to_end.tallies import DigestTally, Log, differences
from tests.end_to_end.workload import ProofWorkload
from tests.tables.proof.checking import TableCheck, check_table
from tests.tables.proof.orders import (
    PARTITIONS,
    SUBJECT,
    TOPIC,
    VERSIONS,
    definition,
    keys,
    numbers_of,
    payloads,
)
from tests.tables.proof.places import Brokers, CatalogProcess, committers

_AT_ONCE: Final = 1000
_TICKETS: Final = 20
_SEND_SECONDS: Final = 300.0
_COMMITTERS: Final = 2
_EVERY_SECONDS: Final = 2.0
_TRIES: Final = 60
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ProofOptions:
    """What is proved, and what happens meanwhile."""

    records: int
    down_seconds: float
    """How long the catalog cannot be reached."""
    kills: int = 2
    """How many brokers are killed."""
    freshness_ms: int = 5000


@dataclass(slots=True)
class TableProof:
    """The result; it is a success if ``faults``, which are sentences, is empty."""

    records: int = 0
    rejected: int = 0
    objects: int = 0
    bytes: int = 0
    snapshots: int = 0
    killed: int = 0
    failures: int = 0
    """How often committers could not reach the catalog."""
    conflicts: int = 0
    """Commits that another committer preceded, or whose answer was lost."""
    exchanged: int = 0
    """Objects that left the table because merged ones have their records."""
    seconds: dict[str, float] = field(default_factory=dict)
    table: dict[Log, DigestTally] = field(default_factory=dict)
    replayed: dict[Log, DigestTally] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


async def prove(
    brokers: Brokers,
    catalog: CatalogProcess,
    lake: str,
    folder: Path,
    options: ProofOptions,
    say: Say,
) -> TableProof:
    """Run all steps. The environment names the lake and the catalog for commands.

    Raises ``RuntimeError`` if a command fails, and the client's errors.
    """
    proof = TableProof()
    took = proof.seconds
    await _create(brokers.url, options)
    with ExitStack() as stack:
        logs = stack.enter_context(committers(folder, _COMMITTERS, TOPIC, _EVERY_SECONDS))
        catalog.logs = logs
        say(f"publish {options.records:,} records")
        began = time.monotonic()
        await _publish(brokers, catalog, options, proof, say)
        took["publish"] = time.monotonic() - began
        say("tier the rest")
        await run_sulina("ledger", "offload", TOPIC, "--wait", "--url", brokers.url)
        took["publish and tier"] = time.monotonic() - began
        say("wait for the table")
        await _wait_for_table(options.records)
        took["until the table has all"] = time.monotonic() - began
        # Objects from before a version lack its columns, and with them its defaults.
        say("rewrite objects that lack columns of the newest version")
        await run_sulina("ledger", "rewrite", TOPIC, "--wait", "--url", brokers.url)
        took["until all objects have all columns"] = time.monotonic() - began
    await run_sulina("table", "backfill", TOPIC)
    for log in logs:
        _count_commits(log, proof)
    proof.failures = catalog.failures
    say("replay")
    began = time.monotonic()
    orders = ProofWorkload(TOPIC, 1.0, PARTITIONS, "none")
    seen = await replay(brokers.url, {orders: options.records}, lambda done: None)
    proof.replayed = seen.result()
    took["replay"] = time.monotonic() - began
    say("read the table")
    began = time.monotonic()
    await asyncio.to_thread(_check, lake, catalog.url, options.records, proof)
    took["read the table"] = time.monotonic() - began
    proof.faults += differences(proof.replayed, proof.table, "the table has")
    return proof


async def _create(url: str, options: ProofOptions) -> None:
    async with sulina.connect(url) as client:
        await client.admin.topics.create(TOPIC, partitions=PARTITIONS)
        await client.admin.topics.policy(TOPIC, freshness_ms=options.freshness_ms)
        await client.admin.schemas.register(SUBJECT, "json_schema", definition=definition(1))
        await client.admin.schemas.bind(TOPIC, subject=SUBJECT)


async def _publish(
    brokers: Brokers, catalog: CatalogProcess, options: ProofOptions, proof: TableProof, say: Say
) -> None:
    """Publish everything; at even distances a broker is killed, and once the catalog is away."""
    steps = options.kills + 1
    due = deque((number + 1) * options.records // (steps + 1) for number in range(steps))
    harms: set[asyncio.Task[None]] = set()
    async with sulina.connect(brokers.url) as client, asyncio.TaskGroup() as group:
        for version in range(1, VERSIONS + 1):
            made = await client.admin.schemas.register(
                SUBJECT, "json_schema", definition=definition(version)
            )
            tickets: deque[Any] = deque()
            wanted = numbers_of(version, options.records)
            async with client.producer(
                TOPIC,
                name=f"source-{version}",
                schema_id=made.id,
                schema_version=made.version,
                send_timeout=_SEND_SECONDS,
            ) as producer:
                for start in range(wanted.start, wanted.stop, _AT_ONCE):
                    some = range(start, min(start + _AT_ONCE, wanted.stop))
                    tickets.append(
                        await producer.send_many(payloads(some, version), keys=keys(some))
                    )
                    if len(tickets) > _TICKETS:
                        await tickets.popleft()
                    if due and some.stop > due[0]:
                        due.popleft()
                        harm = _harm(brokers, catalog, options, proof, len(due), say)
                        harms.add(group.create_task(harm))
                for ticket in tickets:
                    await ticket


async def _harm(
    brokers: Brokers,
    catalog: CatalogProcess,
    options: ProofOptions,
    proof: TableProof,
    left: int,
    say: Say,
) -> None:
    if left == options.kills // 2:
        say(f"the catalog is away for {options.down_seconds:g} s")
        await catalog.away_for(options.down_seconds)
        say("the catalog is back")
        return
    say("kill a broker")
    proof.killed += 1
    await brokers.kill_one()


async def _wait_for_table(records: int) -> None:
    """Until the committers have added everything."""
    for _ in range(_TRIES):
        told = await run_sulina("table", "show", TOPIC)
        if told["records"] >= records:
            return
        await asyncio.sleep(_EVERY_SECONDS)
    raise RuntimeError(f"the table has {told['records']} of {records} records, and no more come")


def _count_commits(log: Path, proof: TableProof) -> None:
    for line in log.read_text().splitlines():
        if line.startswith("{"):
            told = json.loads(line)
            proof.conflicts += told.get("conflicts", 0)
            proof.exchanged += told.get("exchanged", 0)


def _check(lake: str, catalog: str, records: int, proof: TableProof) -> None:
    place = LakePlace.parse(lake)
    table = find_table(open_catalog(catalog, place), DATABASE, TopicName.parse(TOPIC))
    check = TableCheck(records)
    check_table(table, check)
    proof.table = check.finish()
    proof.faults += check.faults
    files = [task.file for task in table.scan().plan_files()]
    proof.records = sum(file.record_count for file in files)
    proof.rejected = check.rejected
    proof.objects = len(files)
    proof.bytes = sum(file.file_size_in_bytes for file in files)
    proof.snapshots = len(table.snapshots())
