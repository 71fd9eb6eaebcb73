"""Danube's edge gateways: ``/edges/{name}``, their topics and the schemas they were told of."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sulina.metadata.keys import record
from sulina.metadata.keys.path import part
from sulina.metadata.store import MetadataStore

EDGES: Final = "/edges/"
MAX_TOPICS: Final = 500
"""Topics of a gateway: its record must fit into one value."""


@dataclass(frozen=True, slots=True)
class EdgeTopic:
    """A topic of a gateway."""

    name: str
    subject: str = ""
    """Its schema subject, or empty."""
    fingerprint: str = ""
    """Of the schema that the gateway was told of; empty for none."""


@dataclass(frozen=True, slots=True)
class EdgeRecord:
    """A gateway that has registered."""

    version: int
    """Counts the changes that it is told of."""
    topics: tuple[EdgeTopic, ...]
    registered_us: int = 0


async def get(store: MetadataStore, edge: str) -> EdgeRecord | None:
    """A gateway's record, or None."""
    return await record.get(store, EdgeRecord, EDGES + part(edge))


async def update(
    store: MetadataStore, edge: str, change: Callable[[EdgeRecord | None], EdgeRecord]
) -> EdgeRecord:
    """Replace a gateway's record by ``change(record)``, which may run several times; returns it."""
    return await record.update(store, EdgeRecord, EDGES + part(edge), change)
