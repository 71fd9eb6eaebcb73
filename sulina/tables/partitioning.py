"""How the files of a table are partitioned: by topic partition and, if they can be, by day.

A ledger may have records of several days, and Iceberg allows one day for a file. So a table has two
specifications: files with records of one day are in the one with a day, all others in the one
without. Engines read both; manifests of the first kind that have other days are not opened.

pyiceberg writes all files that a commit adds with the table's newest specification. The commits
here write those of the other one, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import (
    Operation,
    SnapshotSummaryCollector,
    Summary,
    update_snapshot_summaries,
)
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AssertLastAssignedPartitionId,
    SetDefaultSpecUpdate,
)
from pyiceberg.table.update.snapshot import (
    _MergeAppendFiles,
    _OverwriteFiles,
    _SnapshotProducer,
)
from pyiceberg.typedef import EMPTY_DICT

from sulina.tables.columns import DAY_SPEC, SPEC


@dataclass(frozen=True, slots=True)
class Specs:
    """The specifications of a table."""

    plain: PartitionSpec
    by_day: PartitionSpec


def specs_for(transaction: Transaction, table: Table) -> Specs:
    """Those of ``table``; the one with a day is added if it is missing, in the same commit."""
    known = table.specs()
    plain = next(spec for spec in known.values() if spec.fields == SPEC.fields)
    for spec in known.values():
        if spec.fields == DAY_SPEC.fields:
            return Specs(plain, spec)
    number, last = max(known) + 1, table.metadata.last_partition_id
    added = PartitionSpec(*DAY_SPEC.fields, spec_id=number)
    same = AssertLastAssignedPartitionId.model_validate({"last-assigned-partition-id": last})
    newest = SetDefaultSpecUpdate.model_validate({"spec-id": number})
    transaction._apply((AddPartitionSpecUpdate(spec=added), newest), (same,))
    return Specs(plain, added)


def changing(transaction: Transaction, summary: dict[str, str], *, removes: bool) -> Change:
    """Begin a snapshot of ``transaction``, with ``summary``, that may add files of both kinds.

    Only an append merges manifests, and only an overwrite ``removes`` files.
    """
    kind = _Overwrite if removes else _Append
    return kind(
        operation=Operation.OVERWRITE if removes else Operation.APPEND,
        transaction=transaction,
        io=transaction._table.io,
        branch=MAIN_BRANCH,
        snapshot_properties=summary,
    )


class _BySpec(_SnapshotProducer[Any]):
    """Mixed into pyiceberg's commits: each added file is written with its own specification."""

    _others: Sequence[DataFile] = ()

    def _manifests(self) -> list[ManifestFile]:
        files, newest = self._added_data_files, self._transaction.table_metadata.default_spec_id
        self._others = [file for file in files if file.spec_id != newest]
        self._added_data_files = [file for file in files if file.spec_id == newest]
        try:
            return super()._manifests()
        finally:
            self._added_data_files = files

    def _process_manifests(self, manifests: list[ManifestFile]) -> list[ManifestFile]:
        first = 1 if self._added_data_files else 0
        others = [self._written(number) for number in {file.spec_id for file in self._others}]
        return super()._process_manifests([*manifests[:first], *others, *manifests[first:]])

    def _written(self, spec_id: int) -> ManifestFile:
        with self.new_manifest_writer(self.spec(spec_id)) as writer:
            for file in self._others:
                if file.spec_id == spec_id:
                    entry = ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._snapshot_id,
                        sequence_number=None,
                        file_sequence_number=None,
                        data_file=file,
                    )
                    writer.add(entry)
        return writer.to_manifest_file()

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        metadata = self._transaction.table_metadata
        schema, specs = metadata.schema(), metadata.specs()
        counted = SnapshotSummaryCollector()
        for file in self._added_data_files:
            counted.add_file(file, schema, specs[file.spec_id])
        for file in self._deleted_data_files:
            counted.remove_file(file, schema, specs[file.spec_id])
        before = metadata.snapshot_by_id(self._parent_snapshot_id or -1)
        return update_snapshot_summaries(
            Summary(operation=self._operation, **counted.build(), **snapshot_properties),
            None if before is None else before.summary,
        )


class _Append(_BySpec, _MergeAppendFiles):
    pass


class _Overwrite(_BySpec, _OverwriteFiles):
    pass


Change = _Append | _Overwrite
"""Takes ``append_data_file`` and ``delete_data_file``; leaving ``with`` ends the snapshot."""
