"""The benchmark of the object format measures every kind of ledger that it lists."""

from __future__ import annotations

import pytest

from benchmarks.lake import KINDS, FrameProfile, make_frames, measure, measure_typed
from benchmarks.lake_orders import OrderFormat, formats
from sulina.wire.decode import Frame


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_a_small_ledger_of_each_kind_is_measured(kind: FrameProfile) -> None:
    result = measure(kind, 3 * kind.size * kind.records, repeat=1)
    assert (result.frames, result.records) == (3, 3 * kind.records)
    assert min(result.encode, result.decode, result.verify, result.parquet) > 0
    assert result.frame_bytes > result.records * kind.size


def test_frames_are_what_their_kind_says() -> None:
    for kind in KINDS:
        frame = Frame(make_frames(kind, 2)[1])
        assert frame.header.base_offset == frame.count == kind.records
        assert {len(payload) for payload in frame.payloads} == {kind.size}
        assert (frame.keys is not None, frame.attributes is not None) == (
            kind.keys,
            kind.attributes,
        )


@pytest.mark.parametrize(("format_", "words"), formats(), ids=["json", "avro", "protobuf"])
def test_typed_columns_are_measured_for_each_format(format_: OrderFormat, words: int) -> None:
    rates = measure_typed(format_, words, 400_000, 1)
    assert 150 < rates.payload_bytes < 250 and rates.overhead > 0
    assert rates.typed > 0 and rates.decode > 0
