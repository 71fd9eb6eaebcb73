"""Protobuf messages for heads, frames and summaries of objects."""

from __future__ import annotations

from collections.abc import Sequence

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import Entry
from storage_grpc.remote.wire.layout import DamagedMessage, pack_entries, unpack_entries
from sulina.errors import UnknownOutcome
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.lake.typed.schema_version import SchemaVersion
from sulina.names import TopicName

_SUMMARY = tuple(pb.VerifyTieredReply.DESCRIPTOR.fields_by_name)
"""The fields of a summary in addition to those of the object's head."""


def to_head(head: ObjectHead) -> pb.ObjectHead:
    """The message for a head."""
    return pb.ObjectHead(topic=str(head.topic), ledger=head.ledger, first_offset=head.first_offset)


def from_head(head: pb.ObjectHead) -> ObjectHead:
    """The head in a message. Raises ``Refused`` if its topic is invalid."""
    return ObjectHead(TopicName.parse(head.topic), head.ledger, head.first_offset)


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
    return ObjectSummary(head.topic, head.ledger, head.first_offset, **found)
