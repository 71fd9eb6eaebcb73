"""Whatever frames a ledger has, its object gives them back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sulina.lake.encoder import EncoderSettings
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.header import COMPRESSION_MASK, check_frame
from tests.lake.ledgers import Ledger, decode, encode, footer_of, ledger_of, ledgers
from tests.wire.records import Records, sample


def assert_same(found: bytes, frame: bytes) -> None:
    """``found`` is ``frame``: byte for byte, or, if that is compressed, in all it holds."""
    if not check_frame(frame).flags & COMPRESSION_MASK:
        assert found == frame
        return
    got, want = Frame(found), Frame(frame)
    for field in ("base_offset", "epoch", "producer_id", "first_sequence", "count", "schema_id"):
        assert getattr(got.header, field) == getattr(want.header, field)
    assert got.header.schema_version == want.header.schema_version
    assert (got.header.flags ^ want.header.flags) & ~COMPRESSION_MASK == 0
    assert got.producer_name == want.producer_name
    assert got.payloads == want.payloads
    assert got.times == want.times
    assert got.keys == want.keys
    assert got.attributes == want.attributes
    assert got.due_us == want.due_us


@given(ledgers(), st.integers(1, 2000), st.integers(1, 5))
def test_any_frames_come_out_of_an_object_as_they_went_in(
    ledger: Ledger, row_group_bytes: int, at_once: int
) -> None:
    data, summary = encode(ledger, EncoderSettings(row_group_bytes), at_once)
    footer = footer_of(data)
    assert footer.summary == summary
    assert footer.control_frames == ledger.control_frames
    found = decode(data)
    for got, frame in zip(found, ledger.data_frames, strict=True):
        assert_same(got, frame)
