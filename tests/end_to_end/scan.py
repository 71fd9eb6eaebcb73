"""Spark's part: reads every record of the lake through the data source, and audits the objects.

``python -m tests.end_to_end.scan --path s3://bucket/prefix`` prints what it saw as JSON. Where S3
is, and who asks, comes from the environment (AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ...).
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.compute as pc

from emr_jobs.java import prepare_java
from emr_jobs.jobs.ledger_audit import parser as audit_options
from emr_jobs.jobs.ledger_audit import work as audit
from emr_jobs.source.counting import count_records
from sulina.lake.digest import Digest
from tests.spark.program import new_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TOPICS: Final = "/default/*"
_ROOT: Final = Path(__file__).parents[2]
_WINDOW: Final = 60_000
"""Offsets of each partition that are collected at once."""


@dataclass(frozen=True, slots=True)
class Scanned:
    """What Spark says of the lake."""

    logs: list[dict[str, Any]]
    """A row for each topic partition: topic, partition, records, bytes, digest."""
    counted: int
    """Records by the objects' metadata alone."""
    faults: list[dict[str, Any]]
    """What the audit found, if there was one."""
    scan_seconds: float
    audit_seconds: float = 0.0


def scan(spark: SparkSession, path: str) -> Scanned:
    """Read all records, and count them by metadata alone. Blocks; raises what Spark raises."""
    began = time.monotonic()
    options = {"path": path, "topic": TOPICS}
    seen: dict[tuple[str, int], _Seen] = defaultdict(_Seen)
    start = 0
    while True:
        table = _window(spark, options, start)
        for place, records in _parted(table):
            seen[place].add(records)
        start += _WINDOW
        if all(each.next_offset < start for each in seen.values()):
            break
    logs = [
        {"topic": topic, "partition": number, **seen[topic, number].row()}
        for topic, number in sorted(seen)
    ]
    return Scanned(logs, count_records(options), [], time.monotonic() - began)


def audited(scanned: Scanned, path: str) -> Scanned:
    """The same with what the audit of all objects finds, a job of Spark as well."""
    began = time.monotonic()
    late = ("--late-seconds", "0", "--allow-late")
    arguments = audit_options().parse_args(["--path", path, "--topic", TOPICS, *late])
    _, report = audit(arguments)
    return replace(scanned, faults=report["details"], audit_seconds=time.monotonic() - began)


class _Seen:
    """The records of one topic partition, window by window."""

    def __init__(self) -> None:
        self._digest = Digest()
        self._records = self._bytes = 0
        self.next_offset = 0

    def add(self, records: Any) -> None:
        self._digest.add(records)
        self._records += records.num_rows
        self._bytes += pc.sum(pc.binary_length(records.column("payload"))).as_py()
        self.next_offset = 1 + pc.max(records.column("offset")).as_py()

    def row(self) -> dict[str, Any]:
        return {
            "records": self._records,
            "bytes": self._bytes,
            "digest": self._digest.text(),
        }


def _window(spark: SparkSession, options: dict[str, str], start: int) -> Any:
    """The records of all partitions from an offset on, in Arrow and in no order."""
    bounds = {"startOffset": str(start), "endOffset": str(start + _WINDOW)}
    frame = spark.read.format("sulina").options(**options, **bounds).load()
    return frame.toArrow()


def _parted(table: Any) -> Iterator[tuple[tuple[str, int], Any]]:
    columns = ("namespace", "topic", "partition")
    for place in table.select(columns).group_by(columns).aggregate([]).to_pylist():
        own = table
        for name, value in place.items():
            own = own.filter(pc.equal(own.column(name), value))
        topic = f"/{place['namespace']}/{place['topic']}"
        yield (topic, place["partition"]), own.sort_by("offset")


def main(argv: Sequence[str]) -> int:
    """Start Spark, scan, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.end_to_end.scan", description=__doc__)
    parser.add_argument("--path", required=True, help="the lake: a folder, or s3://bucket/prefix")
    given = parser.parse_args(argv)
    prepare_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(_ROOT)  # of Spark's Python processes, for the data source
    with tempfile.TemporaryDirectory(prefix="sulina-spark-") as folder:
        spark = new_session(Path(folder))
        try:
            seen = audited(scan(spark, given.path), given.path)
        finally:
            spark.stop()
    sys.stdout.write(json.dumps(asdict(seen)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
