"""Audit of ledgers: are all records there, once, unchanged? Exits with 1 if not.

Reads every record of every object: offsets within and between objects must follow on each other,
no producer's sequence may come twice, and the digest of the records must be the one that the
object states. Late data, records published long before some that stand before them, are counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from emr_jobs.jobs.auditing import SCHEMA, audit_object
from emr_jobs.jobs.running import (
    DONE,
    FOUND,
    Result,
    add_source,
    command,
    parser,
    run,
    session,
    source_options,
)
from emr_jobs.source.footers import read_footer
from emr_jobs.source.objects import (
    FOOTER_THREADS,
    Candidate,
    TopicPartition,
    candidates,
    list_parts,
)
from emr_jobs.source.options import Bounds, Place, Topics, parse_options
from emr_jobs.source.storage import Found, Storage
from sulina.errors import SulinaError

if TYPE_CHECKING:
    from pyspark.sql import Row

_EXAMPLES = """\
  python -m emr_jobs.jobs.ledger_audit --path s3://lake --topic '/default/*'
  python -m emr_jobs.jobs.ledger_audit --path ./lake --topic /default/orders --late-seconds 3600"""
_OBJECTS_A_TASK = 16
_MOST_FAULTS = 1000


def main(argv: Sequence[str]) -> int:
    """Run the job."""
    arguments = parser(__spec__.name, __doc__, _EXAMPLES)
    add_source(arguments)
    arguments.add_argument(
        "--late-seconds",
        type=float,
        default=300.0,
        help="late is a record so much older than one before it (default: 300)",
    )
    arguments.add_argument(
        "--allow-late", action="store_true", help="late records are counted but no fault"
    )
    return run(arguments.parse_args(argv), work)


def work(arguments: argparse.Namespace) -> tuple[int, Result]:
    """Audit all objects in tasks, then the seams between them here."""
    options = parse_options(source_options(arguments))
    storage = Storage(options.place)
    chosen = spans(storage, options.topics, options.bounds)
    spark = session(arguments, "ledger-audit")
    late_us = round(arguments.late_seconds * 1e6)
    objects = with_times(storage, chosen)
    slices = max(1, -(-len(objects) // _OBJECTS_A_TASK))
    place = options.place
    rows: list[Row] = []
    if objects:
        work_list = spark.sparkContext.parallelize(objects, slices)
        audited = work_list.mapPartitions(lambda each: _audit(each, place, late_us))
        rows = spark.createDataFrame(audited, SCHEMA).collect()
    report = judge([row.asDict() for row in rows], late_is_fault=not arguments.allow_late)
    return (FOUND if report["faults"] else DONE), report


def _audit(
    objects: Iterable[tuple[Found, int]], place: Place, late_us: int
) -> Iterator[tuple[Any, ...]]:
    storage = Storage(place)
    for found, newest in objects:
        yield audit_object(storage, found, newest, late_us)


def spans(storage: Storage, topics: Topics, bounds: Bounds) -> list[Candidate]:
    """The objects to audit: of each topic partition, all from the first to the last that may hold
    records within the bounds. One left out in between, for its times, would look like a gap."""
    chosen: list[Candidate] = []
    for objects in list_parts(storage, topics).values():
        found = candidates(objects, bounds.start_offset, bounds.end_offset)
        if bounds.by_time:
            with ThreadPoolExecutor(FOOTER_THREADS) as pool:
                looks = pool.map(partial(_within, storage, bounds), found)
                within = [at for at, is_it in enumerate(looks) if is_it]
            found = found[within[0] : within[-1] + 1] if within else []
        chosen += found
    return chosen


def _within(storage: Storage, bounds: Bounds, each: Candidate) -> bool:
    try:
        summary = read_footer(storage, each.found).summary
    except SulinaError:
        return True  # its own audit tells what is wrong with it
    return summary.last_time_us >= bounds.start_time and summary.first_time_us < bounds.end_time


def with_times(storage: Storage, chosen: Sequence[Candidate]) -> list[tuple[Found, int]]:
    """Each object with the newest publish time of those before it in its topic partition."""

    def last_time(each: Candidate) -> int:
        try:
            return (each.footer or read_footer(storage, each.found)).summary.last_time_us
        except SulinaError:
            return 0  # its own audit tells what is wrong with it

    with ThreadPoolExecutor(FOOTER_THREADS) as pool:
        times = list(pool.map(last_time, chosen))
    newest: dict[TopicPartition, int] = {}
    objects = []
    for each, time in zip(chosen, times, strict=True):
        objects.append((each.found, newest.get(each.part, 0)))
        newest[each.part] = max(time, newest.get(each.part, 0))
    return objects


def judge(objects: Sequence[dict[str, Any]], *, late_is_fault: bool) -> Result:
    """What is wrong, in the order of topics and offsets. Pure."""
    faults: list[dict[str, Any]] = []
    before: dict[TopicPartition, dict[str, Any]] = {}
    sequences: dict[tuple[TopicPartition, str], list[tuple[int, int, str]]] = {}
    for each in sorted(objects, key=lambda row: row["object"]):
        part = TopicPartition(each["topic"], each["partition"])
        key = each["object"]
        faults += ({"kind": "damaged", "object": key, "what": what} for what in each["faults"])
        faults += _seam(part, before.get(part), each)
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
        "details": faults[:_MOST_FAULTS],
    }


def _seam(
    part: TopicPartition, last: dict[str, Any] | None, each: dict[str, Any]
) -> list[dict[str, Any]]:
    if last is None or last["end"] == each["first"]:
        return []
    if last["end"] < each["first"]:
        what = f"records {last['end']} to {each['first'] - 1} of {part} are missing"
        return [{"kind": "gap", "object": each["object"], "what": what}]
    what = f"records {each['first']} to {last['end'] - 1} of {part} are there twice"
    return [{"kind": "repeat", "object": each["object"], "what": what}]


def _repeats(producer: str, ranges: list[tuple[int, int, str]]) -> list[dict[str, Any]]:
    """Sequences of one producer that are in two places."""
    faults = []
    reached = -1
    for first, last, key in sorted(ranges):
        if first <= reached:
            what = f"producer {producer!r}: sequences {first} to {min(last, reached)} come twice"
            faults.append({"kind": "repeat", "object": key, "what": what})
        reached = max(reached, last)
    return faults


if __name__ == "__main__":
    command(main)
