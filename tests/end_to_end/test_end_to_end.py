"""A small run of the proof, and that it notices what it is there to notice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.end_to_end.deployments import open_deployment
from tests.end_to_end.proof import prove
from tests.end_to_end.scan import Scanned, audited, scan
from tests.end_to_end.tallies import DigestTally, Log, Tallies, differences
from tests.end_to_end.workload import WORKLOADS, shares

RECORDS = 3000
LOG: Log = ("/default/orders", 0)


class SilentWatcher:
    """Watches and says nothing."""

    def step(self, name: str, total: float | None) -> None: ...

    def show(self, done: float) -> None: ...


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_consumer_and_spark_see_what_was_published_after_the_journals_are_gone(
    tmp_path: Path, spark: SparkSession
) -> None:
    tier = f"file://{tmp_path / 'lake'}"

    async def look() -> Scanned:
        return await asyncio.to_thread(lambda: audited(scan(spark, tier), tier))

    async with open_deployment(tmp_path / "sulina", tier, embedded=True) as place:
        proof = await prove(place, RECORDS, "small", look, SilentWatcher())
    assert proof.faults == []
    assert proof.wiped_bytes > 0
    assert sum(each.records for each in proof.scanned.values()) == RECORDS
    assert len(proof.published) == sum(each.partitions or 1 for each in WORKLOADS)
    assert proof.published == proof.replayed == proof.scanned


def test_records_are_the_same_for_the_same_seed() -> None:
    for workload, count in shares(RECORDS).items():
        first, second = list(workload.chunks(count, "a")), list(workload.chunks(count, "a"))
        assert first == second != list(workload.chunks(count, "b"))
        assert sum(len(chunk.payloads) for chunk in first) == count
    assert sum(shares(RECORDS).values()) == RECORDS


def _tallied(*payloads: bytes, offsets: list[int] | None = None) -> dict[Log, DigestTally]:
    tallies = Tallies()
    tallies.add(LOG, "p", [7] * len(payloads), payloads, None, None, offsets=offsets)
    return tallies.result()


def test_missing_changed_moved_and_unknown_records_are_differences() -> None:
    whole = _tallied(b"a", b"b")
    assert differences(whole, _tallied(b"a", b"b"), "it got") == []
    assert "1 records of 2" in differences(whole, _tallied(b"a"), "it got")[0]
    assert "other records" in differences(whole, _tallied(b"a", b"B"), "it got")[0]
    assert "other records" in differences(whole, _tallied(b"b", b"a"), "it got")[0]
    assert "other records" in differences(whole, _tallied(b"a", b"b", offsets=[0, 2]), "it got")[0]
    assert "nothing of 2 records" in differences(whole, {}, "it got")[0]
    assert "nobody published" in differences({}, whole, "it got")[0]
