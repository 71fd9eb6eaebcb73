"""The registry as a broker has it: with protoc, and a thread for what takes a while."""

from __future__ import annotations

from broker_containers.schemas.registry import SchemaRegistry
from sulina.metadata.store import MetadataStore
from sulina.runtime.aside import Aside
from sulina.runtime.protoc import Protoc
from sulina.runtime.seam import Clock


def open_registry(store: MetadataStore, clock: Clock) -> SchemaRegistry:
    """A registry over ``store``. Needs no closing; several on one store agree."""
    return SchemaRegistry(store, clock, Protoc(clock).compile, Aside())
