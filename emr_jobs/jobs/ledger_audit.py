"""Audit ledgers: check that all records exist exactly once and unchanged. Exits with 1 if not.

Reads every record of every object: offsets must be consecutive within and between objects, no
sequence number of a producer may occur twice, and the digest of the records must match the object's
summary. Counts late records, which are much older than a record before them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from emr_jobs.jobs import running
from emr_jobs.jobs.auditing import SCHEMA, audit_object
from emr_jobs.jobs.running import DONE, FAULTS_FOUND, Result
from emr_jobs.source.footers import read_footer
from emr_jobs.source.objects import (
    FOOTER_THREADS,
    ObjectCandidate,
    TopicPartition,
    candidates,
    existing_parts,
)
from emr_jobs.source.options import ReadBounds, ReadOptions, StoreLocation, parse_options
from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.errors import SulinaError

if TYPE_CHECKING:
    from pyspark.sql import Row

_EXAMPLES = """\
  python -m emr_jobs.jobs.ledger_audit --path s3://lake --topic '/default/*'
  python -m emr_jobs.jobs.ledger_audit --path ./lake --topic /default/orders --late-seconds 3600"""
_OBJECTS_PER_TASK = 16
_MAX_FAULTS = 1000


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    return running.run(parser().parse_args(argv), work)


def parser() -> argparse.ArgumentParser:
    """The job's options."""
    arguments = running.parser("ledger_audit", __doc__, _EXAMPLES)
    arguments.add_argument(
        "--late-seconds",
        type=float,
        default=300.0,
        help="a record is late if it is this much older than one before it (default: 300)",
    )
    arguments.add_argument(
        "--allow-late", action="store_true", help="count late records, but not as faults"
    )
    return arguments


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Audit all objects in tasks, then the transitions between them on the driver."""
    options = parse_options(running.source_options(arguments))
    storage = LakeStorage(options.location)
    chosen = spans(storage, options)
    spark = running.session(arguments, "ledger-audit")
    late_us = round(arguments.late_seconds * 1e6)
    objects = with_times(storage, chosen)
    slices = max(1, -(-len(objects) // _OBJECTS_PER_TASK))
    location = options.location
    rows: list[Row] = []
    if objects:
        work_list = spark.sparkContext.parallelize(objects, slices)
        audited = work_list.mapPartitions(lambda each: _audit(each, location, late_us))
        rows = spark.createDataFrame(audited, SCHEMA).collect()
    report = judge([row.asDict() for row in rows], late_is_fault=not arguments.allow_late)
    return (FAULTS_FOUND if report["faults"] else DONE), report


def _audit(
    objects: Iterable[tuple[LakeObject, int]], location: StoreLocation, late_us: int
) -> Iterator[tuple[Any, ...]]:
    storage = LakeStorage(location)
    for found, newest in objects:
        yield audit_object(storage, found, newest, late_us)


def spans(storage: LakeStorage, options: ReadOptions) -> list[ObjectCandidate]:
    """The objects to audit: per topic partition, from the first to the last within the bounds.

    Objects in between are included even if their times are outside the bounds, because leaving them
    out would look like a gap. Raises ``NotFound`` for topics without objects, unless allowed.
    """
    bounds = options.bounds
    chosen: list[ObjectCandidate] = []
    for objects in existing_parts(storage, options).values():
        found = candidates(objects, bounds.start_offset, bounds.end_offset)
        if bounds.by_time:
            with ThreadPoolExecutor(FOOTER_THREADS) as pool:
                looks = pool.map(partial(_within, storage, bounds), found)
                within = [at for at, is_it in enumerate(looks) if is_it]
            found = found[within[0] : within[-1] + 1] if within else []
        chosen += found
    return chosen


def _within(storage: LakeStorage, bounds: ReadBounds, each: ObjectCandidate) -> bool:
    try:
        summary = read_footer(storage, each.found).summary
    except SulinaError:
        return True  # the object's own audit reports the damage
    return summary.last_time_us >= bounds.start_time and summary.first_time_us < bounds.end_time


def with_times(
    storage: LakeStorage, chosen: Sequence[ObjectCandidate]
) -> list[tuple[LakeObject, int]]:
    """Each object, with the newest publish time before it in its topic partition."""

    def last_time(each: ObjectCandidate) -> int:
        try:
            return (each.footer or read_footer(storage, each.found)).summary.last_time_us
        except SulinaError:
            return 0  # the object's own audit reports the damage

    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        times = list(pool.map(last_time, chosen))
    newest: dict[TopicPartition, int] = {}
    objects = []
    for each, time in zip(chosen, times, strict=True):
        objects.append((each.found, newest.get(each.part, 0)))
        newest[each.part] = max(time, newest.get(each.part, 0))
    return objects


def judge(objects: Sequence[dict[str, Any]], *, late_is_fault: bool) -> Result:
    """The report, with faults in the order of topics and offsets. Pure."""
    faults: list[dict[str, Any]] = []
    before: dict[TopicPartition, dict[str, Any]] = {}
    sequences: dict[tuple[TopicPartition, str], list[tuple[int, int, str]]] = {}
    for each in sorted(objects, key=lambda row: row["object"]):
        part = TopicPartition(each["topic"], each["partition"])
        key = each["object"]
        faults += ({"kind": "damaged", "object": key, "what": what} for what in each["faults"])
        faults += _transition(part, before.get(part), each)
        if each["readable"]:
            before[part] = each
        if each["late"] and late_is_fault:
            what = f"{each['late']} records are late"
            faults.append({"kind": "late", "object": key, "what": what})
        for producer, first, last in each["sequences"]:
            sequences.setdefault((part, producer), []).append((first, last, key))
    for (_, producer), ranges in sequences.items():
        faults += _repeats(producer, ranges)
    return {
        "job": "ledger_audit",
        "objects": len(objects),
        "records": sum(each["records"] for each in objects),
        "late": sum(each["late"] for each in objects),
        "faults": len(faults),
        "details": faults[:_MAX_FAULTS],
    }


def _transition(
    part: TopicPartition, last: dict[str, Any] | None, each: dict[str, Any]
) -> list[dict[str, Any]]:
    if last is None or last["end"] == each["first"]:
        return []
    if last["end"] < each["first"]:
        what = f"records {last['end']} to {each['first'] - 1} of {part} are missing"
        return [{"kind": "gap", "object": each["object"], "what": what}]
    what = f"records {each['first']} to {last['end'] - 1} of {part} exist twice"
    return [{"kind": "repeat", "object": each["object"], "what": what}]


def _repeats(producer: str, ranges: list[tuple[int, int, str]]) -> list[dict[str, Any]]:
    """Sequence numbers of one producer that occur twice."""
    faults = []
    reached = -1
    for first, last, key in sorted(ranges):
        if first <= reached:
            what = (
                f"producer {producer!r}: sequence numbers {first} to {min(last, reached)} "
                "occur twice"
            )
            faults.append({"kind": "repeat", "object": key, "what": what})
        reached = max(reached, last)
    return faults


if __name__ == "__main__":
    running.command(main)
