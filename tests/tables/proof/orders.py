"""The records that the proof publishes: order ``n`` says in its payload that it is order ``n``.

The first third is written with version 1 of the schema, the second with version 2, which adds a
property with a default, and the last with version 3, which drops one and adds a time. One in
``BROKEN_EVERY`` payloads fits no version.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

TOPIC: Final = "/default/orders"
SUBJECT: Final = "orders"
PARTITIONS: Final = 4
VERSIONS: Final = 3
BROKEN_EVERY: Final = 997
CURRENCIES: Final = ("EUR", "USD", "SEK", "JPY")
DEFAULT_CURRENCY: Final = "CHF"
_START: Final = np.datetime64("2026-01-01T00:00:00", "s")
_CUSTOMERS: Final = 5000

Ints = NDArray[np.int64]


def definition(version: int) -> str:
    """The JSON Schema of a version."""
    properties: dict[str, Any] = {"id": {"type": "integer"}}
    if version < 3:
        properties["customer"] = {"type": "string"}
    properties["amount"] = {"type": "number"}
    if version >= 2:
        properties["currency"] = {"type": "string", "default": DEFAULT_CURRENCY}
    if version >= 3:
        properties["placed"] = {"type": "string", "format": "date-time"}
    return json.dumps({"type": "object", "properties": properties, "required": ["id"]})


def numbers_of(version: int, records: int) -> range:
    """The orders that are written with a version."""
    return range(records * (version - 1) // VERSIONS, records * version // VERSIONS)


def is_broken(numbers: Ints) -> NDArray[np.bool_]:
    """Whose payloads fit no version."""
    broken: NDArray[np.bool_] = numbers % BROKEN_EVERY == BROKEN_EVERY - 1
    return broken


def payloads(numbers: range, version: int) -> list[bytes]:
    """The payloads of these orders."""
    known = np.arange(numbers.start, numbers.stop, dtype=np.int64)
    if version == 1:
        texts = [
            f'{{"id": {n}, "customer": "c-{n % _CUSTOMERS}", "amount": {n % 10_000 / 4}}}'
            for n in numbers
        ]
    elif version == 2:
        texts = [
            f'{{"id": {n}, "customer": "c-{n % _CUSTOMERS}", "amount": {n % 10_000 / 4}, '
            f'"currency": "{CURRENCIES[n % len(CURRENCIES)]}"}}'
            for n in numbers
        ]
    else:
        times = np.datetime_as_string(_START + known, unit="s")
        texts = [
            f'{{"id": {n}, "amount": {n % 10_000 / 4}, '
            f'"currency": "{CURRENCIES[n % len(CURRENCIES)]}", "placed": "{time}Z"}}'
            for n, time in zip(numbers, times, strict=True)
        ]
    for place in np.flatnonzero(is_broken(known)):
        texts[place] = f"not an order: {numbers[place]}"
    return [text.encode() for text in texts]


def keys(numbers: range) -> list[bytes]:
    """Their keys, which choose their partitions."""
    return [b"customer-%d" % (n % _CUSTOMERS) for n in numbers]


def number_in(payload: bytes) -> int:
    """Which order a payload is that fits no version."""
    return int(payload.rpartition(b" ")[2])


def values(numbers: Ints, records: int) -> dict[str, pa.Array]:
    """The typed columns that these orders must have, computed without their payloads."""
    version = np.searchsorted(
        [numbers_of(each, records).stop for each in range(1, VERSIONS)], numbers, side="right"
    )
    first, third = version == 0, version == 2
    customer = np.char.add("c-", (numbers % _CUSTOMERS).astype(str))
    currency = np.where(first, DEFAULT_CURRENCY, np.array(CURRENCIES)[numbers % len(CURRENCIES)])
    placed = (_START + numbers).astype("datetime64[us]")
    return {
        "id": pa.array(numbers),
        "customer": pa.array(customer, pa.string(), mask=third),
        "amount": pa.array((numbers % 10_000) / 4.0),
        "currency": pa.array(currency, pa.string()),
        "placed": pa.array(placed, pa.timestamp("us"), mask=~third).cast(
            pa.timestamp("us", tz="UTC")
        ),
    }
