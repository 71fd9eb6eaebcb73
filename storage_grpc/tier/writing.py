"""Writes an object: encode, put if absent, read back, verify.

It succeeds only when every byte was read back and the records have the digest computed from what
was encoded. An existing object is verified against the same digest: another node may have written
it, or the answer to our own write was lost. Nothing is ever deleted here, not even an object that
turns out to be wrong, because it may belong to something else.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence

from storage_grpc.tier.objects import ObjectReader
from storage_grpc.tier.tier import Offloaded, key_of
from sulina.errors import AlreadyExists, Refused
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.lake.typed.table import TableSchema, table_schema
from sulina.metadata.keys.ledger_list import TieredRef
from sulina.objects.store import ObjectStore

_log = logging.getLogger(__name__)


class Encoding(ABC):
    """An object that is encoded as its bytes are consumed."""

    def __init__(self) -> None:
        self.summary: ObjectSummary | None = None
        """Summary of the object, once all of it was consumed."""
        self.rejected = 0
        """Payloads that do not fit their schema."""

    @abstractmethod
    def chunks(self) -> AsyncGenerator[bytes]:
        """The bytes, in order."""


async def write_object(
    head: ObjectHead, start: Callable[[], Encoding], store: ObjectStore, objects: ObjectReader
) -> Offloaded:
    """Write the object of ``head`` unless it exists, read it back and verify it.

    ``start`` begins to encode, perhaps twice. Raises what that raises, ``CorruptEntry`` if what was
    read back differs, ``AlreadyExists`` if there is an object with other records.
    """
    encoding = start()
    chunks = encoding.chunks()
    try:
        await store.put(key_of(head), chunks)
    except AlreadyExists:
        if encoding.summary is None:
            encoding = start()
            async for _ in encoding.chunks():
                pass
    finally:
        await chunks.aclose()
    ours = encoding.summary
    assert ours is not None, "the store takes an object to its end"
    there = await objects.verify(head)
    if _content(there) != _content(ours):
        raise AlreadyExists(
            f"the object {key_of(head)} holds other records than ledger {head.ledger} of "
            f"{head.topic}: does the bucket belong to another cluster? Nothing was deleted; "
            "use another prefix, or move the object away"
        )
    records = there.records if there.is_sparse else None
    ref = TieredRef(there.size, there.digest, generation=head.generation, records=records)
    return Offloaded(ref, encoding.rejected)


def _content(summary: ObjectSummary) -> tuple[object, ...]:
    return (
        summary.topic,
        summary.ledger,
        summary.first_offset,
        summary.last_offset,
        summary.records,
        summary.generation,
        summary.digest,
    )


def table_of(head: ObjectHead, schemas: Sequence[SchemaVersion]) -> TableSchema | None:
    """The table of the payloads; None if there is none, or its schema cannot be read.

    A ledger must become an object whatever its schema is: readers can decode payloads later.
    """
    try:
        return table_schema(schemas)
    except Refused as error:
        _log.warning("the object of ledger %d gets no typed columns: %s", head.ledger, error)
        return None
