"""The hash chain of the audit trail: whatever is done to its records is found."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.audit import (
    TRIM,
    AuditEntry,
    AuditEvent,
    AuditOutcome,
    AuditRecord,
    ChainHead,
    ChainVerifier,
    TrailStart,
    decode,
    encode,
    hash_of,
)

ENTRY = AuditEntry(
    time_us=1,
    event=AuditEvent.ACT,
    outcome=AuditOutcome.STARTED,
    principal="billing",
    address="127.0.0.1:5",
    door="binary",
    operation="topic.create",
)
texts = st.text(max_size=20)
entries = st.builds(
    AuditEntry,
    time_us=st.integers(0, 1 << 60),
    event=st.sampled_from(AuditEvent),
    outcome=st.sampled_from(AuditOutcome),
    principal=texts,
    address=texts,
    door=texts,
    operation=texts,
    resource=texts,
    allowed=st.booleans(),
    detail=texts,
    count=st.integers(1, 1000),
)


def written(parts: list[tuple[str, AuditEntry]]) -> list[AuditRecord]:
    """What brokers write, each its own chain, in one topic."""
    heads: dict[str, ChainHead] = {}
    records = []
    for broker, entry in parts:
        record = heads.get(broker, ChainHead(broker)).next(entry)
        heads[broker] = record.head
        records.append(record)
    return records


trails = st.lists(
    st.tuples(st.sampled_from(["broker-1", "broker-2"]), entries), min_size=1, max_size=12
).map(written)


def heads_of(records: list[AuditRecord]) -> list[ChainHead]:
    return list({record.broker: record.head for record in records}.values())


def problems(records: list[AuditRecord], heads: list[ChainHead], **more: Any) -> list[str]:
    verifier = ChainVerifier(heads, **more)
    for offset, record in enumerate(records):
        verifier.add(offset, record)
    verifier.finish()
    return [each.text for each in verifier.problems]


@given(trails)
def test_an_untouched_trail_has_no_problems(records: list[AuditRecord]) -> None:
    assert problems(records, heads_of(records)) == []
    assert problems(records, []) == []


@given(trails, st.data())
def test_a_trail_may_be_read_from_any_record_on(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    start = data.draw(st.integers(1, len(records)))
    trim = replace(ENTRY, operation=TRIM, detail=json.dumps({"before": start}))
    heads = {record.broker: record.head for record in records}
    kept = [*records[start:], heads[records[0].broker].next(trim)]
    gone = [replace(each, offset=0) for each in heads_of(records)]
    assert problems(kept, gone, first=start) == []
    [missing] = problems(kept[:-1], [], first=start)
    assert "no record says that retention deleted them" in missing


@given(trails, st.data())
def test_what_is_missing_after_a_deletion_is_found(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    first = data.draw(st.integers(1, len(records)))
    start = TrailStart(first, tuple(heads_of(records[:first])))
    detail = json.dumps({"before": first, "ends": start.digest})
    trim = replace(ENTRY, operation=TRIM, detail=detail)
    heads = {record.broker: record.head for record in records}
    kept = [*records[first:], heads[records[0].broker].next(trim)]
    assert problems(kept, heads_of(records), first=first, starts=[start]) == []
    gone = data.draw(st.integers(0, len(kept) - 1))
    fewer = [*kept[:gone], *kept[gone + 1 :]]
    assert problems(fewer, heads_of(kept), first=first, starts=[start]) != []
    # A repeated record is not a problem, so one may take the place of another.
    replaced = [kept[-1] if number == gone else each for number, each in enumerate(kept)]
    if gone < len(kept) - 1:
        assert problems(replaced, heads_of(kept), first=first, starts=[start]) != []
    altered = replace(start, ends=tuple(replace(each, hash="0") for each in start.ends))
    assert problems(kept, [], first=first, starts=[altered]) != []
    assert problems(kept, [], first=first) != []


@given(trails, st.data())
def test_any_removed_record_is_found(records: list[AuditRecord], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(records) - 1))
    left = records[:index] + records[index + 1 :]
    [first, *_] = problems(left, heads_of(records))
    assert f"record {records[index].sequence} of {records[index].broker} missing" in first


@given(trails, st.data())
def test_any_altered_record_is_found(records: list[AuditRecord], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(records) - 1))
    changed = replace(records[index], principal=records[index].principal + "x")
    altered = [*records[:index], changed, *records[index + 1 :]]
    [problem] = problems(altered, heads_of(records))
    assert f"record {changed.sequence} of {changed.broker} (offset {index}) was altered" in problem


@given(trails, st.data())
def test_an_altered_record_with_a_matching_hash_is_found(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    index = data.draw(st.integers(0, len(records) - 1))
    changed = replace(records[index], principal=records[index].principal + "x")
    changed = replace(changed, hash=hash_of(changed))
    altered = [*records[:index], changed, *records[index + 1 :]]
    [problem] = problems(altered, heads_of(records))
    assert "was replaced" in problem and changed.broker in problem


@given(trails, st.data())
def test_records_of_a_chain_in_another_order_are_found(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(records))))
    moved = [records[index] for index in order]

    def chains(found: list[AuditRecord]) -> dict[str, list[int]]:
        numbers: dict[str, list[int]] = {}
        for record in found:
            numbers.setdefault(record.broker, []).append(record.sequence)
        return numbers

    assert bool(problems(moved, heads_of(records))) is (chains(moved) != chains(records))


@given(trails, st.data())
def test_a_record_that_is_written_again_unchanged_is_no_problem(
    records: list[AuditRecord], data: st.DataObject
) -> None:
    start = data.draw(st.integers(0, len(records) - 1))
    assert problems([*records, *records[start:]], heads_of(records)) == []


@given(trails)
def test_a_stored_record_reads_back_the_same(records: list[AuditRecord]) -> None:
    for record in records:
        assert decode(encode(record)) == record


@given(st.binary() | st.text().map(str.encode))
def test_anything_else_is_not_a_record(payload: bytes) -> None:
    with pytest.raises(ValueError, match="not an audit record"):
        decode(payload)


@pytest.mark.parametrize(
    "change", [{"count": True}, {"sequence": "1"}, {"more": 1}, {"time_us": 1.0}]
)
def test_a_record_of_another_shape_is_not_read(change: dict[str, object]) -> None:
    stored = json.loads(encode(ChainHead("b").next(ENTRY)))
    with pytest.raises(ValueError, match="not an audit record"):
        decode(json.dumps({**stored, **change}, sort_keys=True, separators=(",", ":")).encode())


def test_a_record_that_cannot_be_read_is_reported() -> None:
    verifier = ChainVerifier()
    verifier.add(7, None)
    assert [each.offset for each in verifier.problems] == [7]


def test_a_chain_whose_end_was_removed_is_found() -> None:
    records = written([("b", ENTRY)] * 3)
    assert problems(records[:1], heads_of(records)) == ["records 2 to 3 of b missing at the end"]


def test_long_and_broken_texts_are_cut() -> None:
    record = ChainHead("b").next(replace(ENTRY, resource="x" * 10_000, principal="\ud800"))
    assert len(record.resource) == 255 and record.principal == "?"
    assert decode(encode(record)) == record


def test_a_new_field_with_a_default_keeps_old_hashes() -> None:
    stored = encode(ChainHead("b").next(ENTRY))
    assert all(f'"{name}":'.encode() not in stored for name in ("count", "last_us", "act"))
