"""Protobuf messages for heads, frames and summaries of objects."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import Entry
from storage_grpc.remote.wire.layout import DamagedMessage, pack_entries, unpack_entries
from storage_grpc.tier.tier import Offloaded, ReplaceJob, Rewrite, SourceObject
from sulina.errors import Refused, UnknownOutcome
from sulina.lake.layout import RemovedMark
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.metadata.keys.erasures import Ranges
from sulina.metadata.keys.ledger_list import TieredRef
from sulina.names import TopicName

_SUMMARY = tuple(pb.VerifyTieredReply.DESCRIPTOR.fields_by_name)
"""The fields of a summary in addition to those of the object's head."""


def to_mark(mark: RemovedMark) -> pb.RemovedMark:
    """A mark of removed ledgers."""
    return pb.RemovedMark(number=mark.number, ledger=mark.ledger)


def from_mark(mark: pb.RemovedMark) -> RemovedMark:
    """A mark of removed ledgers."""
    return RemovedMark(mark.number, mark.ledger)


def to_head(head: ObjectHead) -> pb.ObjectHead:
    """The message for a head."""
    found = pb.ObjectHead(topic=str(head.topic), ledger=head.ledger, first_offset=head.first_offset)
    if head.generation:
        found.generation, found.last_offset = head.generation, head.last_offset
    return found


def from_head(head: pb.ObjectHead) -> ObjectHead:
    """The head in a message. Raises ``Refused`` if its topic is invalid."""
    place = TopicName.parse(head.topic), head.ledger, head.first_offset
    if not head.generation:
        return ObjectHead(*place)
    if not 0 <= head.first_offset <= head.last_offset:
        raise Refused(
            f"an object cannot begin at {head.first_offset} and end at offset {head.last_offset}"
        )
    return ObjectHead(*place, head.generation, head.last_offset)


def to_schema(version: SchemaVersion) -> pb.SchemaVersion:
    """The message for a version of a schema."""
    return pb.SchemaVersion(
        id=version.id,
        number=version.number,
        type=version.type,
        definition=version.definition,
        compiled=version.compiled,
    )


def from_schema(version: pb.SchemaVersion) -> SchemaVersion:
    """The version of a schema in a message."""
    return SchemaVersion(
        version.id,
        version.number,
        version.type,
        version.definition,
        version.compiled if version.HasField("compiled") else None,
    )


def pack_frames(ledger: int, frames: Sequence[bytes]) -> bytes:
    """Frames as an ``Entries`` message."""
    return pack_entries([Entry(ledger, n, -1, frame) for n, frame in enumerate(frames)])


def unpack_frames(message: bytes, who: str) -> list[memoryview]:
    """The frames of an ``Entries`` message. Raises ``UnknownOutcome`` if they are damaged."""
    try:
        return [entry.payload for entry in unpack_entries(message)]
    except DamagedMessage as damaged:
        raise UnknownOutcome(f"the answer of {who} is damaged: {damaged}") from None


def to_summary(summary: ObjectSummary) -> pb.VerifyTieredReply:
    """The message for a summary."""
    return pb.VerifyTieredReply(**{name: getattr(summary, name) for name in _SUMMARY})


def from_summary(head: ObjectHead, reply: pb.VerifyTieredReply) -> ObjectSummary:
    """The summary in a message, for the object of ``head``."""
    found = {name: getattr(reply, name) for name in _SUMMARY}
    place = head.topic, head.ledger, head.first_offset
    return ObjectSummary(*place, **found, generation=head.generation)


def to_offsets(offsets: Ranges) -> list[int]:
    """Ranges of offsets in a message."""
    return list(chain.from_iterable(offsets))


def from_offsets(offsets: Sequence[int]) -> Ranges:
    """The ranges of offsets in a message. Raises ``Refused`` if they are none."""
    if len(offsets) % 2 or list(offsets) != sorted(offsets):
        raise Refused("ranges of offsets need a first and a last one each, in order")
    return tuple(zip(offsets[::2], offsets[1::2], strict=True))


def to_job(job: ReplaceJob) -> pb.ReplaceRequest:
    """The message for a replacement."""
    return pb.ReplaceRequest(
        head=to_head(job.head),
        sources=map(_to_source, job.sources),
        rewrite=job.rewrite,
        schemas=map(to_schema, job.schemas),
        later=map(_to_source, job.later),
        tombstones_before_us=job.tombstones_before_us,
        key_digests=job.key_digests,
        erased_us=job.erased_us,
        offsets=to_offsets(job.offsets),
    )


def _to_source(source: SourceObject) -> pb.SourceObject:
    return pb.SourceObject(head=to_head(source.head), digest=source.digest)


def _from_source(source: pb.SourceObject) -> SourceObject:
    return SourceObject(from_head(source.head), source.digest)


def from_job(request: pb.ReplaceRequest) -> ReplaceJob:
    """The replacement in a message. Raises ``Refused`` if it is none, or of an unknown kind."""
    try:
        rewrite = Rewrite(request.rewrite)
    except ValueError:
        raise Refused(
            f"this node cannot rewrite objects to {request.rewrite!r}: use a newer version"
        ) from None
    sources = tuple(map(_from_source, request.sources))
    head = from_head(request.head)
    if not sources or not head.generation:
        raise Refused("a replacement needs a generation and objects to replace")
    return ReplaceJob(
        head,
        sources,
        rewrite,
        tuple(map(from_schema, request.schemas)),
        tuple(map(_from_source, request.later)),
        request.tombstones_before_us,
        tuple(request.key_digests),
        request.erased_us,
        from_offsets(request.offsets),
    )


def to_made(made: Offloaded) -> pb.OffloadReply:
    """The message for an object that was written."""
    return pb.OffloadReply(
        size=made.ref.size,
        digest=made.ref.digest,
        rejected=made.rejected,
        records=made.ref.records,
        erased=made.erased,
        others=made.others,
    )


def from_made(head: ObjectHead, reply: pb.OffloadReply) -> Offloaded:
    """The object of ``head`` that was written, in a message."""
    records = reply.records if reply.HasField("records") else None
    ref = TieredRef(reply.size, reply.digest, generation=head.generation, records=records)
    return Offloaded(ref, reply.rejected, reply.erased, reply.others)
