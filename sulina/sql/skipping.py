"""Which parts of a topic a filter excludes, by what is known of them before they are read. Pure.

Arrow knows whether an expression can be true under a guarantee, but offers that only for the
fragments of a dataset: so each part becomes a fragment, of a file that is never opened.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs as pafs

from sulina.lake.schema import OFFSET, PUBLISH_TIME, TIME_TYPE

PARTITION: Final = "partition"
_FORMAT: Final = ds.ParquetFileFormat()
_NOWHERE: Final = pafs.LocalFileSystem()


@dataclass(frozen=True, slots=True)
class Known:
    """What all records of a part have in common; ends are inclusive."""

    partition: int
    first_offset: int
    last_offset: int
    first_time_us: int | None = None
    last_time_us: int | None = None
    """The earliest and the latest publish time; None if not known."""

    def guarantee(self) -> Any:
        """The same as an expression that is true for all of its records."""
        offset = ds.field(OFFSET)
        found = (
            (ds.field(PARTITION) == pa.scalar(self.partition, pa.int32()))
            & (offset >= self.first_offset)
            & (offset <= self.last_offset)
        )
        time = ds.field(PUBLISH_TIME)
        if self.first_time_us is not None:
            found = found & (time >= pa.scalar(self.first_time_us, TIME_TYPE))
        if self.last_time_us is not None:
            found = found & (time <= pa.scalar(self.last_time_us, TIME_TYPE))
        return found


def possible(schema: pa.Schema, wanted: pc.Expression | None, parts: Sequence[Known]) -> list[int]:
    """The numbers of the parts that may have records for which ``wanted`` is true."""
    if wanted is None:
        return list(range(len(parts)))
    fragments = [
        _FORMAT.make_fragment(str(number), _NOWHERE, part.guarantee())
        for number, part in enumerate(parts)
    ]
    found = ds.FileSystemDataset(fragments, schema, _FORMAT).get_fragments(wanted)
    return [int(fragment.path) for fragment in found]
