"""Audits one object: reads all of it, and compares what is there with what it says of itself."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.storage import Found, Storage
from sulina.errors import SulinaError
from sulina.lake.digest import Digest
from sulina.lake.schema import OFFSET, PRODUCER, PUBLISH_TIME, RECORD_SCHEMA, SEQUENCE

SCHEMA: Final = (
    "object string, topic string, partition int, first bigint, end bigint, records bigint, "
    "late bigint, readable boolean, faults array<string>, "
    "sequences array<struct<producer: string, first: bigint, last: bigint>>"
)
"""Of the rows that :func:`audit_object` gives."""


def audit_object(storage: Storage, found: Found, newest_us: int, late_us: int) -> tuple[Any, ...]:
    """What an object holds, and what is wrong with it. Raises nothing for damage. Blocks.

    ``newest_us`` is the newest publish time before it; late are records ``late_us`` older.
    """
    name = found.name
    topic = f"/{name.namespace}/{name.topic}"
    try:
        footer = read_footer(storage, found)
        audit = _Audit(footer, newest_us, late_us)
        with storage.open(found.key) as source:
            file = pq.ParquetFile(source, metadata=footer.parquet, page_checksum_verification=True)
            for batch in file.iter_batches(columns=RECORD_SCHEMA.names):
                audit.add(batch)
        audit.finish()
    except (SulinaError, OSError, pa.ArrowException) as error:
        row = (found.key, topic, name.partition, name.first_offset, name.first_offset, 0, 0, False)
        return (*row, [str(error)], [])
    summary = footer.summary
    return (
        *(found.key, topic, name.partition, summary.first_offset, summary.last_offset + 1),
        *(audit.records, audit.late, True, audit.faults, audit.sequences()),
    )


class _Audit:
    def __init__(self, footer: Footer, newest_us: int, late_us: int) -> None:
        self.records = 0
        self.late = 0
        self.faults: list[str] = []
        self._summary = footer.summary
        self._late_us = late_us
        self._digest = Digest()
        self._next = footer.summary.first_offset
        self._newest = newest_us
        self._runs: dict[str, list[tuple[int, int]]] = {}

    def add(self, batch: Any) -> None:
        """The next rows, in the order of the object."""
        self._digest.add(batch)
        self._offsets(_numbers(batch.column(OFFSET)))
        times = _numbers(batch.column(PUBLISH_TIME).cast(pa.int64()))
        newest = np.maximum.accumulate(np.maximum(times, self._newest))
        self.late += int((newest - times > self._late_us).sum())
        self._newest = int(newest[-1]) if len(newest) else self._newest
        self.records += batch.num_rows
        self._learn(batch)

    def finish(self) -> None:
        """Compare with what the object says of itself."""
        summary = self._summary
        if self.records != summary.records:
            self.faults.append(f"{self.records} records are there, {summary.records} are stated")
        found = self._digest.text()
        if found != summary.digest:
            self.faults.append(f"the digest of the records is {found}, {summary.digest} is stated")

    def sequences(self) -> list[tuple[str, int, int]]:
        """The runs of sequences of each producer, joined where they follow on each other."""
        return [
            (producer, first, last) for producer, runs in self._runs.items() for first, last in runs
        ]

    def _offsets(self, offsets: Any) -> None:
        if not len(offsets):
            return
        wanted = np.arange(self._next, self._next + len(offsets))
        wrong = np.flatnonzero(offsets != wanted)
        if len(wrong):
            at = int(wrong[0])
            self.faults.append(
                f"offset {int(offsets[at])} stands where {int(wanted[at])} should: a gap or a "
                "repeat within the object"
            )
        self._next = int(offsets[-1]) + 1

    def _learn(self, batch: Any) -> None:
        """Cut each producer's sequences into runs, with no Python a record."""
        producers = batch.column(PRODUCER).dictionary_encode()
        codes = producers.indices.to_numpy()
        sequences = _numbers(batch.column(SEQUENCE))
        for code, producer in enumerate(producers.dictionary.to_pylist()):
            own = sequences[codes == code]
            cuts = np.flatnonzero(np.diff(own) != 1) + 1
            runs = self._runs.setdefault(producer, [])
            for piece in np.split(own, cuts):
                first, last = int(piece[0]), int(piece[-1])
                if runs and runs[-1][1] + 1 == first:
                    runs[-1] = (runs[-1][0], last)
                else:
                    runs.append((first, last))


def _numbers(column: Any) -> Any:
    return pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
