"""The number and digest of the records of each topic partition, as seen by one observer.

The digest is that of ``sulina.lake``: over every column of every record, in order. Here it is
computed from Python lists, independently of frames and objects.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from sulina.lake.digest import Digest
from sulina.lake.schema import RECORD_SCHEMA

Log = tuple[str, int]
"""A topic and the number of its partition; 0 for a topic without partitions."""

_ATTRIBUTES: Final = RECORD_SCHEMA.field("attributes").type


@dataclass(frozen=True, slots=True)
class DigestTally:
    """What one observer saw of a topic partition."""

    records: int
    digest: str


@dataclass(slots=True)
class _Open:
    digest: Digest = field(default_factory=Digest)
    records: int = 0


class Tallies:
    """Accumulates records, per partition in the order of their offsets."""

    def __init__(self) -> None:
        self._logs: dict[Log, _Open] = {}

    def add(
        self,
        log: Log,
        producer: str,
        times: Sequence[int],
        payloads: Sequence[bytes],
        keys: Sequence[bytes | None] | None,
        attributes: Sequence[Mapping[str, str] | None] | None,
        *,
        offsets: Sequence[int] | None = None,
        sequences: Sequence[int] | None = None,
        schema: tuple[int, int] = (0, 0),
    ) -> None:
        """Add records; by default, offsets and sequence numbers continue the previous ones.

        ``schema`` is the id and version that they name.
        """
        open_ = self._logs.setdefault(log, _Open())
        count = len(payloads)
        following = range(open_.records, open_.records + count)
        columns = {
            "offset": following if offsets is None else offsets,
            "publish_time": times,
            "producer": [producer] * count,
            "sequence": following if sequences is None else sequences,
            "key": [None] * count if keys is None else keys,
            "payload": payloads,
            "attributes": _maps(attributes, count),
            "schema_id": [schema[0]] * count,
            "schema_version": [schema[1]] * count,
            "delivery_time": [None] * count,
        }
        arrays = [pa.array(columns[each.name], each.type) for each in RECORD_SCHEMA]
        open_.digest.add(pa.RecordBatch.from_arrays(arrays, schema=RECORD_SCHEMA))
        open_.records += count

    @property
    def records(self) -> int:
        """Of all partitions."""
        return sum(each.records for each in self._logs.values())

    def result(self) -> dict[Log, DigestTally]:
        """The tallies so far."""
        return {
            log: DigestTally(each.records, each.digest.text()) for log, each in self._logs.items()
        }


def _maps(attributes: Sequence[Mapping[str, str] | None] | None, count: int) -> pa.Array:
    if attributes is None:
        return pa.nulls(count, _ATTRIBUTES)
    return pa.array([list(each.items()) if each else None for each in attributes], _ATTRIBUTES)


def differences(
    expected: Mapping[Log, DigestTally], seen: Mapping[Log, DigestTally], who: str
) -> list[str]:
    """One sentence per difference."""
    found = []
    for log in sorted({*expected, *seen}):
        one, other = expected.get(log), seen.get(log)
        name = f"partition {log[1]} of {log[0]}"
        if one is None:
            found.append(f"{name}: {who} records that nobody published")
        elif other is None:
            found.append(f"{name}: {who} nothing of {one.records} records")
        elif one.records != other.records:
            found.append(f"{name}: {who} {other.records} records of {one.records}")
        elif one.digest != other.digest:
            found.append(f"{name}: {who} other records, {other.digest} and not {one.digest}")
    return found
