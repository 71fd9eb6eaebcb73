"""Encoded entries and outcomes decode to the same; damaged ones never decode."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import MAX_ENTRY, MAX_LEDGER, Entry
from storage_grpc.remote.wire.layout import (
    DamagedMessage,
    pack,
    pack_entries,
    pack_outcome,
    unpack_entries,
    unpack_outcomes,
)

entries = st.lists(
    st.builds(
        Entry,
        ledger=st.integers(0, MAX_LEDGER),
        entry=st.integers(0, MAX_ENTRY),
        lac=st.integers(-1, MAX_ENTRY),
        payload=st.binary(max_size=300),
    ),
    max_size=8,
)


def as_entries(message: bytes) -> list[Entry]:
    return [Entry(e.ledger, e.entry, e.lac, bytes(e.payload)) for e in unpack_entries(message)]


@given(entries)
def test_entries_come_out_as_they_went_in(sent: list[Entry]) -> None:
    assert as_entries(pack_entries(sent)) == sent


@given(entries)
def test_a_message_is_what_protobuf_makes_of_it(sent: list[Entry]) -> None:
    message = pack_entries(sent)
    content = pb.Entries.FromString(message).entries
    assert as_entries(pb.Entries(entries=content).SerializeToString()) == sent


def test_payloads_are_views_of_the_message_and_not_copies() -> None:
    message = pack_entries([Entry(1, 2, 3, b"payload")])
    (received,) = unpack_entries(message)
    assert received.payload.obj is message


@given(entries.filter(bool), st.data())
def test_a_flipped_bit_is_always_noticed(sent: list[Entry], data: st.DataObject) -> None:
    message = bytearray(pack_entries(sent))
    place = data.draw(st.integers(0, 8 * len(message) - 1))
    message[place // 8] ^= 1 << place % 8
    with pytest.raises(DamagedMessage):
        unpack_entries(bytes(message))


@given(entries.filter(bool), st.data())
def test_a_message_that_was_cut_is_always_noticed(sent: list[Entry], data: st.DataObject) -> None:
    message = pack_entries(sent)
    with pytest.raises(DamagedMessage):
        unpack_entries(message[: data.draw(st.integers(1, len(message) - 1))])


@given(st.binary(max_size=200))
def test_any_bytes_are_understood_or_refused(garbage: bytes) -> None:
    for message in (garbage, pack([garbage], len(garbage))):
        try:
            unpack_entries(message)
            list(unpack_outcomes(message))
        except DamagedMessage:
            pass


@given(
    st.lists(
        st.tuples(
            st.integers(0, MAX_LEDGER),
            st.integers(0, MAX_ENTRY),
            st.integers(0, 65535),
            st.text(max_size=40),
        )
    )
)
def test_outcomes_come_out_as_they_went_in(sent: list[tuple[int, int, int, str]]) -> None:
    parts = [pack_outcome(*outcome) for outcome in sent]
    assert [tuple(o) for o in unpack_outcomes(pack(parts, sum(map(len, parts))))] == sent


def test_a_long_sentence_is_cut() -> None:
    part = pack_outcome(1, 2, 3, "ü" * 4000)
    (outcome,) = unpack_outcomes(pack([part], len(part)))
    assert outcome.message.startswith("ü" * 499)
    assert len(outcome.message) <= 1000
