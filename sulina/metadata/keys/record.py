"""Encodes records as JSON that readers and writers of different versions understand.

A record is a dataclass. Decoding ignores unknown fields and uses defaults for missing ones.
Anything else raises ``CorruptEntry``.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import types
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from sulina.errors import CorruptEntry, SulinaError
from sulina.metadata import cas
from sulina.metadata.keys.path import name_of
from sulina.metadata.store import KeyValue, MetadataStore

R = TypeVar("R")


def encode(record: Any) -> bytes:
    """The bytes of a record, equal for equal records. Fields that are None are omitted."""
    return json.dumps(_plain(record), separators=(",", ":"), ensure_ascii=False).encode()


def decode(kind: type[R], item: KeyValue) -> R:
    """Decode the record of type ``kind`` at a key."""
    try:
        record: R = _read(kind, json.loads(item.value))
    except (ValueError, TypeError, SulinaError) as error:
        raise CorruptEntry(f"the metadata at {item.key} cannot be read: {error}") from error
    return record


def by_name(kind: type[R], prefix: str, items: Iterable[KeyValue]) -> dict[str, R]:
    """Records by name: what follows ``prefix`` in their keys."""
    return {name_of(item.key.removeprefix(prefix)): decode(kind, item) for item in items}


async def get(store: MetadataStore, kind: type[R], key: str) -> R | None:
    """The record of type ``kind`` at a key, or None."""
    item = await store.get(key)
    return None if item is None else decode(kind, item)


async def update(
    store: MetadataStore, kind: type[R], key: str, change: Callable[[R | None], R]
) -> R:
    """Replace a record by ``change(current)`` and return it.

    Nothing is written if it is equal to the current one. ``change`` may raise, and runs again on
    the newer record after a lost race. Durable when it returns. Raises ``Overloaded`` after too
    many lost races.
    """
    changed: list[R] = []

    def swap(item: KeyValue | None) -> bytes | None:
        current = None if item is None else decode(kind, item)
        changed.append(change(current))
        return None if changed[-1] == current else encode(changed[-1])

    await cas.update(store, key, swap)
    return changed[-1]


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value):
        pairs = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return {name: _plain(inner) for name, inner in pairs if inner is not None}
    if isinstance(value, tuple):
        return [_plain(inner) for inner in value]
    return value.value if isinstance(value, Enum) else value


def _read(kind: Any, raw: Any) -> Any:
    """``raw`` as a value of the annotation ``kind``; raises ``TypeError`` or ``ValueError``."""
    if type(raw) is kind:
        return raw
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        (kind,) = (choice for choice in inner if choice is not types.NoneType)
        return None if raw is None else _read(kind, raw)
    if origin is tuple:
        if not isinstance(raw, list):
            raise TypeError(f"{raw!r} is not a list")
        kinds = (inner[0],) * len(raw) if inner[1:] == (...,) else inner
        return tuple(_read(each, value) for each, value in zip(kinds, raw, strict=True))
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        if not isinstance(raw, dict):
            raise TypeError(f"{raw!r} is not an object")
        hints = _hints(kind)
        return kind(**{name: _read(hints[name], raw[name]) for name in hints if name in raw})
    if issubclass(kind, Enum):
        return kind(raw)
    raise TypeError(f"{raw!r} is not of type {kind.__name__}")


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
