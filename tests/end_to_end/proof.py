"""The steps of the end-to-end proof, each with its duration.

Publish; tier; verify the objects; wait until Sulina has deleted its own copies; stop, delete the
journals, restart; publish a little more; replay everything; tier the rest; scan everything with
Spark. The records published, consumed and read by Spark must then be the same.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Protocol

import sulina
from tests.end_to_end.clients import publish, replay
from tests.end_to_end.deployments import RunningDeployment, run_sulina
from tests.end_to_end.scan import Scanned
from tests.end_to_end.tallies import DigestTally, Log, Tallies, differences
from tests.end_to_end.workload import WORKLOADS, shares

_LOOK_SECONDS: Final = 0.2
_DROP_SECONDS: Final = 600.0

Scan = Callable[[], Awaitable[Scanned]]


class ProofWatcher(Protocol):
    """Receives the progress of the proof."""

    def step(self, name: str, total: float | None) -> None:
        """The next step begins."""

    def show(self, done: float) -> None:
        """``done`` of the step's total is complete."""


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A step's duration, and the records and payload bytes that it processed."""

    name: str
    seconds: float
    records: int = 0
    bytes: int = 0

    @property
    def mb_per_second(self) -> float:
        return self.bytes / 1e6 / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Proof:
    """The result; it is a success if ``faults``, which are sentences, is empty."""

    records: int = 0
    bytes: int = 0
    """Size of all payloads."""
    objects: int = 0
    object_bytes: int = 0
    wiped_bytes: int = 0
    steps: list[ProofStep] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    published: dict[Log, DigestTally] = field(default_factory=dict)
    replayed: dict[Log, DigestTally] = field(default_factory=dict)
    scanned: dict[Log, DigestTally] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        logs = sorted({*self.published, *self.replayed, *self.scanned})
        views = {
            "published": self.published,
            "replayed": self.replayed,
            "scanned": self.scanned,
        }
        return {
            "proved": not self.faults,
            "records": self.records,
            "payload_bytes": self.bytes,
            "objects": self.objects,
            "object_bytes": self.object_bytes,
            "wiped_journal_bytes": self.wiped_bytes,
            "steps": [
                {**asdict(each), "mb_per_second": round(each.mb_per_second, 2)}
                for each in self.steps
            ],
            "partitions": [
                {
                    "topic": log[0],
                    "partition": log[1],
                    **{
                        name: asdict(tallies[log])
                        for name, tallies in views.items()
                        if log in tallies
                    },
                }
                for log in logs
            ],
            "faults": self.faults,
        }


async def prove(
    place: RunningDeployment, records: int, seed: str, scan: Scan | None, watch: ProofWatcher
) -> Proof:
    """Run all steps; without ``scan``, those with Spark are skipped.

    Raises ``RuntimeError`` if a command fails, and the client's errors.
    """
    return await _ProofRun(place, records, seed, watch).run(scan)


class _ProofRun:
    def __init__(
        self, place: RunningDeployment, records: int, seed: str, watch: ProofWatcher
    ) -> None:
        self._place = place
        self._seed = seed
        self._watch = watch
        self._expected = Tallies()
        self._proof = Proof(records=records)
        self._counts = shares(records)
        self._tail = {each: count // 100 + 1 for each, count in self._counts.items()}
        """The records to publish after the journals are deleted."""

    async def run(self, scan: Scan | None) -> Proof:
        proof = self._proof
        await self._create_topics()
        await self._publish({each: self._counts[each] - n for each, n in self._tail.items()}, "")
        await self._offload("tier", proof.bytes)
        await self._verify()
        with self._step("wait until local copies are deleted"):
            await self._local_copies_gone()
        with self._step("stop, delete the journals, restart"):
            proof.wiped_bytes = await self._place.lose_journals()
        before = proof.bytes
        await self._publish(self._tail, " more")
        await self._replay()
        await self._offload("tier the rest", proof.bytes - before)
        if scan is not None:
            await self._scan(scan)
        return proof

    async def _create_topics(self) -> None:
        async with sulina.connect(self._place.url) as client:
            for each in WORKLOADS:
                arguments = {"topic": each.topic, "partitions": each.partitions}
                await client.admin("topic.create", arguments)

    async def _publish(self, counts: dict[Any, int], note: str) -> None:
        proof, total = self._proof, sum(counts.values())
        before = self._expected.records
        with self._step(f"publish{note}", total) as took:
            seed = self._seed + note
            size = await publish(
                self._place.url,
                counts,
                seed,
                self._expected,
                lambda done: self._watch.show(done - before),
            )
            took.update(records=total, bytes=size)
        proof.bytes += size
        proof.published = self._expected.result()

    async def _offload(self, name: str, size: int) -> None:
        with self._step(name) as took:
            await self._of_each("ledger", "offload", "--wait", "--within", 1200)
            took.update(bytes=size)
        rows = [row for row in await self._ledgers() if row["object_bytes"]]
        self._proof.objects = len(rows)
        self._proof.object_bytes = sum(row["object_bytes"] for row in rows)

    async def _verify(self) -> None:
        with self._step("verify") as took:
            answers = await self._of_each("ledger", "verify", "--timeout", 300)
            records = sum(row["records"] for rows in answers for row in rows)
            took.update(records=records, bytes=self._proof.bytes)
        if records != self._expected.records:
            self._proof.faults.append(f"objects have {records} of {self._expected.records} records")

    async def _local_copies_gone(self) -> None:
        end = time.monotonic() + _DROP_SECONDS
        while any(
            row["records"] != 0 and row["where"] != "object" for row in await self._ledgers()
        ):
            if time.monotonic() > end:
                raise RuntimeError(f"storage nodes still have entries after {_DROP_SECONDS:g} s")
            await asyncio.sleep(_LOOK_SECONDS)

    async def _replay(self) -> None:
        proof = self._proof
        with self._step("replay", proof.records) as took:
            seen = await replay(self._place.url, self._counts, self._watch.show)
            took.update(records=seen.records, bytes=proof.bytes)
        proof.replayed = seen.result()
        proof.faults += differences(proof.published, proof.replayed, "the consumer got")

    async def _scan(self, scan: Scan) -> None:
        proof = self._proof
        with self._step("Spark, with its start"):
            seen = await scan()
        size = sum(row["bytes"] for row in seen.logs)
        for name, seconds in (("scan", seen.scan_seconds), ("audit", seen.audit_seconds)):
            if seconds:
                proof.steps.append(ProofStep(f"  {name}", round(seconds, 3), proof.records, size))
        proof.scanned = {
            (row["topic"], row["partition"]): DigestTally(row["records"], row["digest"])
            for row in seen.logs
        }
        proof.faults += differences(proof.published, proof.scanned, "Spark read")
        proof.faults += _faults(seen, proof)

    async def _ledgers(self) -> list[dict[str, Any]]:
        """The rows of ``sulina ledger list``, of all topics."""
        async with sulina.connect(self._place.url) as client:
            lists = [await client.admin("ledger.list", {"topic": one.topic}) for one in WORKLOADS]
        return [row for rows in lists for row in rows]

    async def _of_each(self, group: str, command: str, *options: object) -> list[Any]:
        """Run a command for all topics concurrently; returns their outputs."""
        rest = (*map(str, options), "--url", self._place.url)
        return await asyncio.gather(
            *(run_sulina(group, command, each.topic, *rest) for each in WORKLOADS)
        )

    @contextmanager
    def _step(self, name: str, total: float | None = None) -> Iterator[dict[str, int]]:
        """Time a step; the dictionary's values become part of the report."""
        self._watch.step(name, total)
        took: dict[str, int] = {}
        began = time.monotonic()
        yield took
        self._proof.steps.append(ProofStep(name, round(time.monotonic() - began, 3), **took))


def _faults(seen: Scanned, proof: Proof) -> Iterable[str]:
    if seen.counted != proof.records:
        yield f"according to metadata, objects have {seen.counted} of {proof.records} records"
    for each in seen.faults:
        yield f"audit: {each['kind']} in {each['object']}: {each['what']}"
