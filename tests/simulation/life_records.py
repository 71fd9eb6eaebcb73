"""Records of simulated topics with a life: keys, tombstones, expiry times, erased ones.

Each has an id as an attribute, so that tombstones, which have no payload, can be told apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.lake.erasing import ERASED
from sulina.wire.decode import Frame
from sulina.wire.tombstones import is_tombstone

ID = "id"
"""The attribute with a record's id."""
IS_ERASED = b"(erased)"
"""What an erased record is known by."""


@dataclass(frozen=True, slots=True)
class LifeRecord:
    """One record, as it was confirmed."""

    identity: bytes
    key: bytes | None
    tombstone: bool
    time_us: int
    due_us: int
    expires_us: int | None
    bytes: int
    """Its share of the frame."""

    def expired(self, ttl_ms: int, wall_us: int) -> bool:
        """Whether no subscription may deliver it any more."""
        if self.expires_us is not None and self.expires_us <= wall_us:
            return True
        return bool(ttl_ms) and max(self.time_us, self.due_us) + ttl_ms * 1000 <= wall_us


def identities(frame: Frame) -> list[bytes]:
    """What each record of a frame is known by: id, key and payload."""
    count = frame.count
    keys = frame.keys or [None] * count
    attributes = frame.attributes or [{}] * count
    found = []
    for key, payload, given in zip(keys, frame.payloads, attributes, strict=True):
        if ERASED in given:
            found.append(IS_ERASED if key is None and not payload else b"(not quite erased)")
        else:
            parts = given.get(ID, "?").encode(), key or b"", bytes(payload)
            found.append(b"|".join(parts))
    return found


def records_of(frame: Frame) -> list[LifeRecord]:
    """The records of a frame that nobody erased."""
    count = frame.count
    keys = frame.keys or [None] * count
    attributes = frame.attributes or [{}] * count
    return [
        LifeRecord(
            identity,
            key,
            key is not None and is_tombstone(bytes(payload), given),
            time,
            frame.due_us or 0,
            frame.expires_us,
            frame.header.size // count,
        )
        for identity, key, payload, given, time in zip(
            identities(frame), keys, frame.payloads, attributes, frame.times, strict=True
        )
    ]
