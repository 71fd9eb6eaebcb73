"""Chooses the partition of a record by its key."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_FNV_OFFSET: Final = 0xCBF29CE484222325
_FNV_PRIME: Final = 0x100000001B3
_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_REMEMBERED_KEYS: Final = 8192


@lru_cache(maxsize=_REMEMBERED_KEYS)
def fnv1a(key: bytes) -> int:
    """64-bit FNV-1a. Every client uses it, so that records of one key share a partition."""
    value = _FNV_OFFSET
    for byte in key:
        value = (value ^ byte) * _FNV_PRIME & _MASK
    return value


def partition_of(key: bytes, partitions: int) -> int:
    """The number of the partition for this key."""
    return fnv1a(key) % partitions


def group_by_partition(keys: list[bytes | None], partitions: int) -> dict[int | None, list[int]]:
    """The record indices for each partition, in order; None for records without a key."""
    groups: dict[int | None, list[int]] = {}
    for index, key in enumerate(keys):
        number = None if key is None else partition_of(key, partitions)
        groups.setdefault(number, []).append(index)
    return groups
