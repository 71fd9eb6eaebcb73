"""Ledgers as the tests make them up, encoded to objects and decoded again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hypothesis import strategies as st

from sulina.lake.decoder import Footer, NeedMore, RowGroup, decode_row_group, open_footer
from sulina.lake.encoder import EncoderSettings, LedgerEncoder
from sulina.lake.summary import ObjectHead, ObjectSummary
from sulina.names import TopicName
from sulina.wire.encode import Origin, encode_control_frame
from sulina.wire.header import assign, parse_header
from tests.wire.records import NOW, Records, records

TOPIC = TopicName("default", "orders")
LEDGER = 17
EPOCH = 5


@dataclass(frozen=True)
class Ledger:
    """Frames as a storage node holds them: with offsets and epochs assigned."""

    first_offset: int
    frames: list[bytes]

    @property
    def data_frames(self) -> list[bytes]:
        return [frame for frame in self.frames if not parse_header(frame).is_control]

    @property
    def control_frames(self) -> list[bytes]:
        return [frame for frame in self.frames if parse_header(frame).is_control]


def ledger_of(
    batches: Sequence[Records | bytes], first_offset: int = 0, epoch: int = EPOCH
) -> Ledger:
    """A ledger of these frames; bytes are the content of a control frame."""
    frames: list[bytes] = []
    offset = first_offset
    for batch in batches:
        if isinstance(batch, bytes):
            frame = bytearray(encode_control_frame(Origin("broker"), batch, NOW))
        else:
            frame = bytearray(batch.encode())
        assign(frame, offset, epoch)
        offset = parse_header(frame).next_offset
        frames.append(bytes(frame))
    return Ledger(first_offset, frames)


def ledgers(max_frames: int = 8) -> st.SearchStrategy[Ledger]:
    """Any ledger."""
    batch = records(max_count=12) | st.binary(max_size=30)
    return st.builds(
        ledger_of,
        st.lists(batch, max_size=max_frames),
        st.integers(0, 1 << 62),
        st.integers(0, 1 << 62),
    )


def encode(
    ledger: Ledger, settings: EncoderSettings | None = None, at_once: int = 1000
) -> tuple[bytes, ObjectSummary]:
    """The object of a ledger whose frames are handed over ``at_once`` at a time."""
    encoder = LedgerEncoder(ObjectHead(TOPIC, LEDGER, ledger.first_offset), settings)
    chunks: list[bytes] = []
    for start in range(0, len(ledger.frames), at_once):
        chunks += encoder.add(ledger.frames[start : start + at_once])
    last, summary = encoder.finish()
    return b"".join(chunks + last), summary


def footer_of(data: bytes) -> Footer:
    """The footer, read as a caller with little knowledge of the object does."""
    footer = open_footer(data[-16:], len(data))
    while isinstance(footer, NeedMore):
        footer = open_footer(data[-footer.length :], len(data))
    return footer


def decode(data: bytes) -> list[bytes]:
    """All frames of an object."""
    return [frame for _, _, frames in groups_of(data) for frame in frames]


def groups_of(data: bytes) -> Iterator[tuple[RowGroup, bytes, list[bytes]]]:
    """Each row group of an object, its bytes and its frames."""
    footer = footer_of(data)
    for group in footer.row_groups:
        part = data[group.start : group.end]
        yield group, part, decode_row_group(footer, group, part)
