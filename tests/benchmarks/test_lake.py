"""The benchmark of the object format measures every kind of ledger that it lists."""

from __future__ import annotations

import pytest

from benchmarks.lake import KINDS, FrameProfile, make_frames, measure
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
