"""Which records a later one of the same key replaces; frames without some, or with some erased."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sulina.lake.arrow import frames_to_batch
from sulina.lake.digest import Digest
from sulina.lake.erasing import ERASED, digest_of_others, erase_records, key_digest, with_keys
from sulina.lake.key_digests import SEED_SIZE, KeyHasher
from sulina.lake.newest import MemorySpill, NewestOfKeys
from sulina.lake.thinning import thin_frames, tombstones
from sulina.runtime.spill_files import SpillFiles
from sulina.wire.decode import Frame, read_slots
from sulina.wire.encode import Origin, encode_frame
from sulina.wire.header import check_frame
from sulina.wire.tombstones import TOMBSTONE, is_tombstone
from tests.lake.ledgers import Ledger, ledgers
from tests.wire.records import NOW

keys = st.none() | st.binary(max_size=3) | st.sampled_from([b"", b"x" * 40, b"x" * 41, b"\0" * 8])


def hasher(seed: int = 0) -> KeyHasher:
    return KeyHasher(random.Random(seed).randbytes(SEED_SIZE))


@given(
    st.lists(st.lists(keys, max_size=20), max_size=10),
    st.sampled_from([1, 2, 64]),
    st.integers(0, 5),
    st.sampled_from([1, 3, 1000]),
)
def test_a_record_is_replaced_if_a_later_one_has_its_key(
    batches: list[list[bytes | None]], partitions: int, seed: int, held: int
) -> None:
    newest = NewestOfKeys(hasher(seed), MemorySpill(), partitions, held)
    flat = [key for batch in batches for key in batch]
    at = 100
    for batch in batches:
        offsets = pa.array(range(at, at + len(batch)), pa.int64())
        newest.add(offsets, pa.array(batch, pa.binary()))
        at += len(batch)
    expected = [key is not None and key in flat[place + 1 :] for place, key in enumerate(flat)]
    assert newest.replaced(100, 99 + len(flat)).tolist() == expected
    half = len(flat) // 2
    assert newest.replaced(100 + half, 99 + len(flat)).tolist() == expected[half:]


@pytest.mark.parametrize("keys", [1, 500, 20_000], ids=["one key", "few keys", "many keys"])
def test_what_is_sorted_at_once_is_bounded_for_any_number_of_keys_and_records(keys: int) -> None:
    chance, held, records, parts = np.random.default_rng(1), 200, 40_000, 10
    newest = NewestOfKeys(hasher(), SpillFiles(), 16, held)
    numbers = chance.integers(0, keys, records)
    for part in range(0, records, records // parts):
        some = numbers[part : part + records // parts]
        texts = pa.array([b"key-%d" % number for number in some], pa.binary())
        newest.add(pa.array(range(part, part + len(some))), texts)
    expected = np.ones(records, bool)
    last = records - 1 - np.unique(numbers[::-1], return_index=True)[1]
    expected[last] = False
    assert (newest.replaced(0, records - 1) == expected).all()
    assert 0 < newest.most_sorted <= 2 * held
    newest.close()


def test_halves_of_digests_that_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    real = KeyHasher.digests

    def colliding(self: KeyHasher, array: pa.Array) -> object:
        found = real(self, array)
        found.high[:] = 7
        return found

    monkeypatch.setattr(KeyHasher, "digests", colliding)
    newest = NewestOfKeys(hasher(), MemorySpill(), 4)
    newest.add(pa.array(range(6)), pa.array([b"a", b"b", b"a", b"c", b"b", b"d"], pa.binary()))
    assert newest.replaced(0, 5).tolist() == [True, True, False, False, False, False]


def test_digests_of_many_similar_keys_differ() -> None:
    texts = {b"%d" % number for number in range(50_000)}
    texts |= {b"k" * length for length in range(300)} | {b"\0" * length for length in range(1, 300)}
    array = pa.array(sorted(texts), pa.binary())
    found = hasher().digests(array)
    assert len(np.unique(found.high)) == len(np.unique(found.low)) == len(texts)
    part = hasher().digests(array.slice(1000, 50))
    assert (part.high == found.high[1000:1050]).all()


def records_of(frames: list[bytes]) -> dict[int, tuple[object, ...]]:
    """Everything that belongs to a record, by offset."""
    found: dict[int, tuple[object, ...]] = {}
    for data in frames:
        frame = Frame(data)
        header = frame.header
        slots = read_slots(data, header)
        for at in range(frame.count):
            key = None if frame.keys is None else frame.keys[at]
            attributes = {} if frame.attributes is None else frame.attributes[at]
            found[header.base_offset + at] = (
                *(frame.payloads[at], key, attributes, frame.times[at], frame.due_us),
                frame.expires_us,
                *(header.first_sequence + at, frame.producer_name, header.epoch),
                *(header.schema_id, header.schema_version),
                slots[at] if slots is not None and key is not None else None,
            )
    return found


@given(ledgers(), st.randoms())
def test_thinned_frames_have_exactly_the_kept_records(
    ledger: Ledger, chance: random.Random
) -> None:
    frames = ledger.data_frames
    if not frames:
        return
    rows = pa.Table.from_batches([frames_to_batch(frames)])
    kept = np.array([chance.random() < 0.6 for _ in range(len(rows))])
    found, count = thin_frames(rows, kept)
    assert count == kept.sum()
    for frame in found:
        check_frame(frame)
    offsets = rows.column("offset").to_numpy()[kept]
    records = records_of(frames)
    assert records_of(found) == {int(offset): records[int(offset)] for offset in offsets}
    # What is written again is as regular as before: no frame is stored whole.
    if found:
        kinds = [value[0] for value in frames_to_batch(found).column("frame").to_pylist() if value]
        assert Counter(kinds) == {0: len(found)}
        again = pa.Table.from_batches([frames_to_batch(found)])
        assert thin_frames(again, np.ones(count, bool)) == (found, count)


marks = st.none() | st.sampled_from(
    [{"a": "1"}, {TOMBSTONE: "1"}, {"a": "1", TOMBSTONE: "", "z": ""}]
)


@given(
    st.lists(st.tuples(st.sampled_from([b"", b"x"]), keys, marks), min_size=1, max_size=30),
    st.integers(1, 5),
)
def test_tombstones_are_found_in_columns_as_in_records(
    records: list[tuple[bytes, bytes | None, dict[str, str] | None]], size: int
) -> None:
    frames = [
        encode_frame(
            Origin("p"),
            at,
            [payload for payload, _, _ in part],
            NOW,
            keys=[key for _, key, _ in part],
            attributes=[given for _, _, given in part],
        )
        for at in range(0, len(records), size)
        for part in [records[at : at + size]]
    ]
    expected = [
        key is not None and is_tombstone(payload, given or {}) for payload, key, given in records
    ]
    assert tombstones(pa.Table.from_batches([frames_to_batch(frames)])).tolist() == expected


@given(ledgers(), st.randoms())
def test_erased_records_keep_their_offsets_and_the_others_keep_everything(
    ledger: Ledger, chance: random.Random
) -> None:
    frames = ledger.data_frames
    if not frames:
        return
    rows = pa.Table.from_batches([frames_to_batch(frames)])
    erased = np.array([chance.random() < 0.3 for _ in range(len(rows))])
    found = erase_records(frames, erased, "2026-05-01T12:30:00Z")
    before, after = records_of(frames), records_of(found)
    assert before.keys() == after.keys()
    for gone, offset in zip(erased.tolist(), before, strict=True):
        payload, key, attributes, time, *_ = after[offset]
        if gone:
            assert (payload, key, attributes) == (b"", None, {ERASED: "2026-05-01T12:30:00Z"})
            assert time == before[offset][3]
        else:
            assert after[offset] == before[offset]
    digests = [Digest(), Digest()]
    for digest, some in zip(digests, (frames, found), strict=True):
        digest_of_others(digest, pa.Table.from_batches([frames_to_batch(some)]), erased)
    assert digests[0].text() == digests[1].text()


def test_keys_to_erase_are_found_exactly() -> None:
    rows = pa.table({"key": pa.array([b"a", None, b"ab", b"", b"a"], pa.binary())})
    for keys, expected in (
        ([b"a"], [True, False, False, False, True]),
        ([b"", b"ab"], [False, False, True, True, False]),
        ([b"x"], [False] * 5),
    ):
        assert with_keys(rows, frozenset(map(key_digest, keys))).tolist() == expected
