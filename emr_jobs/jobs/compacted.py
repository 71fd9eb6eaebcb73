"""The run log of a compacted table, stored next to its data.

``<table>/_runs/00000007.json`` states how far each topic partition was compacted after run 7. It is
written last, and only if it is absent; a run without this file does not count, and the next run,
which has the same number, overwrites its data.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from emr_jobs.source.footers import read_footer
from emr_jobs.source.objects import ObjectCandidate, TopicPartition, candidates
from emr_jobs.source.options import StoreLocation
from emr_jobs.source.positions import Positions, follow, from_json, to_json
from emr_jobs.source.storage import LakeObject, LakeStorage, open_url
from emr_jobs.source.store_urls import SCHEMES, without_password
from sulina.errors import Refused
from sulina.lake.summary import ObjectSummary

_RUNS: Final = "_runs"


@dataclass(frozen=True, slots=True)
class Uncompacted:
    """Records of one topic partition that are not in the table yet."""

    part: TopicPartition
    start: int
    end: int

    @property
    def name(self) -> str:
        """The value of the option ``topic`` that selects this partition alone."""
        return f"{self.part.topic}-part-{self.part.number}"


def todo(
    storage: LakeStorage,
    parts: Mapping[TopicPartition, list[LakeObject]],
    done: Positions,
    old_us: int,
) -> list[Uncompacted]:
    """The records after ``done``.

    Raises ``Refused`` if records in between are missing, unless the object after the gap was
    written after ``old_us``: then the missing object may still arrive, and the next run takes it.
    """

    def summaries(chosen: list[ObjectCandidate]) -> Iterator[tuple[ObjectSummary, bool]]:
        for each in chosen:
            yield read_footer(storage, each.found).summary, each.found.modified_us > old_us

    pieces = []
    for part, objects in parts.items():
        start = done.get(part, objects[0].name.first_offset)
        end = follow(part, start, summaries(candidates(objects, start)))
        if end > start:
            pieces.append(Uncompacted(part, start, end))
    return pieces


class CompactedTable:
    """The run log of a table. Calls block on the store."""

    def __init__(self, location: StoreLocation) -> None:
        self._location = location
        if urlsplit(location.url).scheme in SCHEMES:
            raise Refused(
                f"a table cannot be written to {without_password(location.url)}: name a folder or "
                "s3://bucket/prefix"
            )
        if urlsplit(location.url).scheme in ("", "file"):
            import fsspec

            self._files: Any = fsspec.filesystem("file", auto_mkdir=True)
            self._root = os.path.abspath(urlsplit(location.url).path)
        else:
            self._files, self._root = open_url(location)

    def state(self) -> tuple[int, Positions]:
        """The number of the next run, and how far each topic partition is compacted."""
        try:
            found = sorted(self._files.ls(f"{self._root}/{_RUNS}", detail=False))
        except FileNotFoundError:
            found = []
        if not found:
            return 0, {}
        last = json.loads(self._files.cat_file(found[-1]))
        return int(last["run"]) + 1, from_json(last["ends"])

    def commit(self, number: int, pieces: list[Uncompacted]) -> None:
        """Record a run whose data is written. Raises ``Refused`` if another run has its number."""
        before, ends = self.state()
        taken = before != number
        ends.update((each.part, each.end) for each in pieces)
        text = json.dumps({"run": number, "ends": to_json(ends)}, indent=1).encode()
        path = f"{self._root}/{_RUNS}/{number:08}.json"
        if not taken:
            try:
                self._files.pipe_file(path, text, mode="create")
            except (FileExistsError, OSError):
                taken = self._files.exists(path)
                if not taken:
                    raise
        if taken:
            raise Refused(
                f"another run compacted {self._location.url} at the same time: start one run at a "
                "time. The next run adds the missing records"
            )
