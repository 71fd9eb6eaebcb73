"""Checks what an application hands to a producer, and says how much it weighs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, repeat
from operator import add
from typing import Final, cast

from sulina.client.batching import RECORD_OVERHEAD, Attributes
from sulina.errors import Refused
from sulina.runtime.seam import Buffer

_END_OF_TIME: Final = 1 << 62


def as_payload(value: object) -> bytes:
    """A payload as bytes that nobody can change any more. Raises ``Refused``."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise Refused(
        f"a payload is bytes, not {type(value).__name__}: encode it first, as in text.encode()"
    )


def as_key(value: object) -> bytes:
    """A key as bytes; text is taken as UTF-8. Raises ``Refused``."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return _encoded(value)
    raise Refused(f"a key is bytes or text, not {type(value).__name__}")


def as_attributes(value: Mapping[str, str]) -> tuple[dict[str, str], int]:
    """A copy of the attributes, and the bytes they take. Raises ``Refused``."""
    size = 0
    for name, text in value.items():
        size += len(_encoded(name)) + len(_encoded(text)) + 2 * RECORD_OVERHEAD
    return dict(value), size


def as_time(microseconds: object) -> int:
    """A publish time that a frame can hold. Raises ``Refused``."""
    if not isinstance(microseconds, int) or not 0 <= microseconds < _END_OF_TIME:
        raise Refused(f"a publish time is in microseconds since 1970, not {microseconds!r}")
    return microseconds


@dataclass(frozen=True, slots=True)
class Records:
    """Many records, column by column, each column as long as the payloads."""

    payloads: list[bytes]
    keys: list[bytes | None] | None
    attributes: list[Attributes | None] | None
    costs: list[int]

    @classmethod
    def check(
        cls,
        payloads: Sequence[Buffer],
        keys: Sequence[bytes | str | None] | None,
        attributes: Sequence[Mapping[str, str] | None] | None,
    ) -> Records:
        """Raises ``Refused`` for anything that is no record. No work in Python a record for
        plain payloads in a list."""
        if not payloads:
            raise Refused("send_many needs at least one payload")
        for name, column in (("keys", keys), ("attributes", attributes)):
            if column is not None and len(column) != len(payloads):
                raise Refused(f"{len(column)} {name} do not fit {len(payloads)} payloads")
        if set(map(type, payloads)) == {bytes}:
            bodies = cast(list[bytes], payloads if isinstance(payloads, list) else [*payloads])
        else:
            bodies = [as_payload(value) for value in payloads]
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
        """The costs of all records up to and with each one."""
        return list(accumulate(self.costs))

    def chosen(self, indices: Sequence[int]) -> Records:
        """Only these records, in this order."""
        return Records(
            [self.payloads[index] for index in indices],
            None if self.keys is None else [self.keys[index] for index in indices],
            None if self.attributes is None else [self.attributes[index] for index in indices],
            [self.costs[index] for index in indices],
        )

    def piece(self, start: int, end: int) -> Records:
        """The records from ``start`` to before ``end``."""
        return Records(
            self.payloads[start:end],
            None if self.keys is None else self.keys[start:end],
            None if self.attributes is None else self.attributes[start:end],
            self.costs[start:end],
        )


def _encoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise Refused(f"names and values of attributes are text, not {type(text).__name__}")
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise Refused(f"{text!r} can't be written as UTF-8") from None
