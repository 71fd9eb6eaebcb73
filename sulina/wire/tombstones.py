"""How a record says that its key has no value any more.

A tombstone has a key, an empty payload and the attribute ``sulina.tombstone``. An empty payload
alone is a value like any other. A frame has no other way to tell null from empty that programs of
earlier versions accept; attributes pass every door, every client and the lake unchanged. Clients
that know nothing of tombstones receive an empty payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sulina.errors import Refused
from sulina.wire.decode import Frame

TOMBSTONE: Final = "sulina.tombstone"
"""The attribute of tombstones."""
_VALUE: Final = "1"


def tombstone_attributes(
    key: object, attributes: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The attributes of a tombstone for ``key``. Raises ``Refused`` without a key."""
    if key is None:
        raise Refused("a record without a payload deletes the value of a key: pass its key, too")
    return {**(attributes or {}), TOMBSTONE: _VALUE}


def is_tombstone(payload: bytes, attributes: Mapping[str, str]) -> bool:
    """Whether a record with a key deletes its value."""
    return not payload and TOMBSTONE in attributes


def payloads_with_values(frame: Frame) -> list[bytes]:
    """The payloads of a frame without its tombstones, which no schema describes."""
    attributes = frame.attributes
    if attributes is None:
        return frame.payloads
    pairs = zip(frame.payloads, attributes, strict=True)
    return [payload for payload, given in pairs if not is_tombstone(payload, given)]
