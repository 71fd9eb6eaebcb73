"""Converts frames whose layout differs from that of ``encode_frame``, one by one.

Compressed frames are decompressed. Others are rare and come from foreign clients, because brokers
check a frame's checksum but never decode it. Such a frame is stored verbatim beside its records. A
frame that cannot be decoded is stored as well, with records without payload: refusing it would keep
the whole ledger out of the lake, and consumers must receive what the producer sent in any case.
"""

from __future__ import annotations

from dataclasses import dataclass

from sulina.errors import CorruptFrame, TooLarge
from sulina.runtime.seam import Buffer
from sulina.wire import header as h
from sulina.wire.compression import Compression, decompress
from sulina.wire.decode import Frame, read_producer_name
from sulina.wire.encode import Origin, encode_frame


@dataclass(frozen=True, slots=True)
class StandIn:
    """A regular frame in the place of another."""

    frame: bytes
    verbatim: bytes | None
    """The original frame, if it cannot be rebuilt from the stand-in's columns."""
    readable: bool = True


def inflate(frame: Buffer, header: h.FrameHeader) -> bytes:
    """The same frame with its columns uncompressed. Raises ``CorruptFrame``."""
    view = memoryview(frame)
    stored = view[header.columns_at : header.columns_at + header.columns_length]
    raw = decompress(Compression(header.flags & h.COMPRESSION_MASK), stored, header.raw_length)
    body = [bytes(view[h.HEADER_SIZE : header.columns_at]), raw, bytes(-len(raw) % 8)]
    head = h.pack_header(
        flags=header.flags & ~h.COMPRESSION_MASK,
        name_length=header.name_length,
        raw_length=header.raw_length,
        count=header.count,
        schema_version=header.schema_version,
        schema_id=header.schema_id,
        producer_id=header.producer_id,
        first_sequence=header.first_sequence,
        first_time=header.first_time,
        last_time=header.last_time,
        columns_length=header.raw_length,
        body=body,
    )
    whole = bytearray(b"".join([head, *body]))
    h.assign(whole, header.base_offset, header.epoch)
    return bytes(whole)


def stand_in(frame: Buffer) -> StandIn:
    """A regular frame with the records of an intact one. Raises ``CorruptFrame``."""
    header = h.check_frame(frame)
    whole = bytes(frame)
    try:
        return StandIn(_assigned(_encode_again(frame, header), header), whole)
    except (CorruptFrame, TooLarge):
        return StandIn(_assigned(_encode_empty(frame, header), header), whole, readable=False)


def _encode_again(frame: Buffer, header: h.FrameHeader) -> bytes:
    opened = Frame(frame)
    return encode_frame(
        Origin(opened.producer_name, header.schema_id, header.schema_version),
        header.first_sequence,
        opened.payloads,
        opened.times,
        keys=opened.keys,
        attributes=opened.attributes,
        due_us=opened.due_us,
        expires_us=opened.expires_us,
        producers=opened.producers if header.flags & h.HAS_PRODUCERS else None,
    )


def _encode_empty(frame: Buffer, header: h.FrameHeader) -> bytes:
    name = read_producer_name(frame, header)
    if len(name.encode()) > h.MAX_NAME:  # replacements for invalid UTF-8 take more bytes
        name = name[: h.MAX_NAME // 4]
    return encode_frame(
        Origin(name, header.schema_id, header.schema_version),
        header.first_sequence,
        [b""] * header.count,
        header.first_time,
        due_us=h.read_due(frame, header),
        expires_us=h.read_expiry(frame, header),
    )


def _assigned(frame: bytes, header: h.FrameHeader) -> bytes:
    assigned = bytearray(frame)
    h.assign(assigned, header.base_offset, header.epoch)
    return bytes(assigned)
