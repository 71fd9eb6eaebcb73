"""Validates records that an application sends, and computes their cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import add
from typing import Final, cast

from sulina.client.batching import RECORD_OVERHEAD, Attributes
from sulina.errors import Refused
from sulina.runtime.seam import Buffer
from sulina.wire.tombstones import tombstone_attributes

_END_OF_TIME: Final = 1 << 62


def as_payload(value: object) -> bytes:
    """A payload as immutable bytes. Raises ``Refused``."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Refused(
        f"a payload must be bytes, not {type(value).__name__}: encode it first, as in text.encode()"
    )


def as_key(value: object) -> bytes:
    """A key as bytes; text is encoded as UTF-8. Raises ``Refused``."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encoded(value)
    raise Refused(f"a key must be bytes or str, not {type(value).__name__}")


def as_attributes(value: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """A copy of the attributes, and their size in bytes. Raises ``Refused``."""
    size = 0
    for name, text in value.items():
        size += len(_encoded(name)) + len(_encoded(text)) + 2 * RECORD_OVERHEAD
    return dict(value), size


def as_time(microseconds: object) -> int:
    """A valid publish time. Raises ``Refused``."""
    if not isinstance(microseconds, int) or not 0 <= microseconds < _END_OF_TIME:
        raise Refused(f"publish_time_us must be microseconds since 1970, not {microseconds!r}")
    return microseconds


@dataclass(frozen=True, slots=True)
class RecordColumns:
    """Many records as columns, each as long as ``payloads``."""

    payloads: list[bytes]
    keys: list[bytes | None] | None
    attributes: list[Attributes | None] | None
    costs: list[int]

    @classmethod
    def check(
        cls,
        payloads: Sequence[Buffer | None],
        keys: Sequence[bytes | str | None] | None,
        attributes: Sequence[Mapping[str, str] | None] | None,
    ) -> RecordColumns:
        """Validate columns. Raises ``Refused``. For plain payloads in a list, no Python code runs
        per record."""
        if not payloads:
            raise Refused("send_many needs at least one payload")
        for name, column in (("keys", keys), ("attributes", attributes)):
            if column is not None and len(column) != len(payloads):
                raise Refused(
                    f"{name} has {len(column)} entries for {len(payloads)} payloads: pass one each"
                )
        if set(map(type, payloads)) == {bytes}:
            bodies = cast(list[bytes], payloads if isinstance(payloads, list) else [*payloads])
        else:
            if any(value is None for value in payloads):
                given = attributes or [None] * len(payloads)
                attributes = [
                    tombstone_attributes(None if keys is None else keys[at], given[at])
                    if value is None
                    else given[at]
                    for at, value in enumerate(payloads)
                ]
            bodies = [b"" if value is None else as_payload(value) for value in payloads]
        costs = map(add, map(len, bodies), repeat(RECORD_OVERHEAD))
        key_list: list[bytes | None] | None = None
        attribute_list: list[Attributes | None] | None = None
        if keys is not None:
            key_list = [None if key is None else as_key(key) for key in keys]
            costs = map(add, costs, [0 if key is None else len(key) for key in key_list])
        if attributes is not None:
            checked = [as_attributes(entry) if entry else (None, 0) for entry in attributes]
            attribute_list = [entry for entry, _ in checked]
            costs = map(add, costs, [size for _, size in checked])
        return cls(bodies, key_list, attribute_list, list(costs))

    def __len__(self) -> int:
        return len(self.payloads)

    def totals(self) -> list[int]:
        """Running totals of the costs."""
        return list(accumulate(self.costs))

    def chosen(self, indices: Sequence[int]) -> RecordColumns:
        """The records at ``indices``, in that order."""
        return RecordColumns(
            [self.payloads[index] for index in indices],
            None if self.keys is None else [self.keys[index] for index in indices],
            None if self.attributes is None else [self.attributes[index] for index in indices],
            [self.costs[index] for index in indices],
        )

    def piece(self, start: int, end: int) -> RecordColumns:
        """The records from ``start`` up to but not including ``end``."""
        return RecordColumns(
            self.payloads[start:end],
            None if self.keys is None else self.keys[start:end],
            None if self.attributes is None else self.attributes[start:end],
            self.costs[start:end],
        )


def _encoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise Refused(f"attribute names and values must be str, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refused(f"{text!r} cannot be encoded as UTF-8") from None
