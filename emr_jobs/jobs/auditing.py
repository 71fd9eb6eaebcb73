"""Audits one object: reads all of it and compares its contents with its own summary."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from emr_jobs.source.footers import Footer, read_footer
from emr_jobs.source.storage import LakeObject, LakeStorage
from sulina.errors import SulinaError
from sulina.lake.digest import Digest
from sulina.lake.schema import OFFSET, PRODUCER, PUBLISH_TIME, RECORD_SCHEMA, SEQUENCE

SCHEMA: Final = (
    "object string, topic string, partition int, first bigint, end bigint, records bigint, "
    "late bigint, readable boolean, faults array<string>, "
    "sequences array<struct<producer: string, first: bigint, last: bigint>>"
)
"""The schema of the rows that :func:`audit_object` returns."""


def audit_object(
    storage: LakeStorage, found: LakeObject, newest_us: int, late_us: int
) -> tuple[Any, ...]:
    """An object's contents and faults, as one row; damage is a fault, not an error. Blocks.

    ``newest_us`` is the newest publish time before the object; a record is late if it is more than
    ``late_us`` older than a record before it.
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
        """Audit the next rows, in the object's order."""
        self._digest.add(batch)
        self._offsets(_numbers(batch.column(OFFSET)))
        times = _numbers(batch.column(PUBLISH_TIME).cast(pa.int64()))
        newest = np.maximum.accumulate(np.maximum(times, self._newest))
        self.late += int((newest - times > self._late_us).sum())
        self._newest = int(newest[-1]) if len(newest) else self._newest
        self.records += batch.num_rows
        self._learn(batch)

    def finish(self) -> None:
        """Compare with the object's summary."""
        summary = self._summary
        if self.records != summary.records:
            self.faults.append(
                f"the object has {self.records} records, but its summary states {summary.records}"
            )
        found = self._digest.text()
        if found != summary.digest:
            self.faults.append(
                f"the digest of the records is {found}, but the summary states {summary.digest}"
            )

    def sequences(self) -> list[tuple[str, int, int]]:
        """Each producer's runs of consecutive sequence numbers."""
        return [
            (producer, first, last) for producer, runs in self._runs.items() for first, last in runs
        ]

    def _offsets(self, offsets: Any) -> None:
        if not len(offsets):
            return
        if self._summary.is_sparse:  # offsets may be missing, but never go back
            wanted = np.concatenate([[self._next], offsets[:-1] + 1])
            wrong = np.flatnonzero(offsets < wanted)
        else:
            wanted = np.arange(self._next, self._next + len(offsets))
            wrong = np.flatnonzero(offsets != wanted)
        if len(wrong):
            at = int(wrong[0])
            self.faults.append(
                f"found offset {int(offsets[at])} instead of {int(wanted[at])}: a gap or a "
                "duplicate within the object"
            )
        self._next = int(offsets[-1]) + 1

    def _learn(self, batch: Any) -> None:
        """Split each producer's sequence numbers into runs, without a Python loop over records."""
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
