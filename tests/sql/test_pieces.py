"""The cut-over: each offset of a partition is in one piece, and only verified objects count."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sulina.live.snapshot import pieces_of
from sulina.metadata.keys.ledgers import LedgerState
from sulina.operations.ledgers import LedgerRow
from sulina.operations.topics import TopicLog

TOPIC = "/default/orders-part-3"


@st.composite
def ledgers(draw: st.DrawFn) -> tuple[TopicLog, list[LedgerRow]]:
    """A list of ledgers in any state, and a log that may have moved on since it was read."""
    first = draw(st.integers(0, 50))
    rows, at = [], first
    for number, (length, tiered) in enumerate(
        draw(st.lists(st.tuples(st.integers(0, 20), st.booleans()), max_size=6))
    ):
        rows.append(_row(number, at, at + length - 1, f"key-{number}" if tiered else None))
        at += length
    start = draw(st.integers(first, at))
    end = draw(st.integers(at, at + 20))
    return TopicLog(TOPIC, start, end, 1, (), (), (), {}), rows


def _row(ledger: int, first: int, last: int, key: str | None) -> LedgerRow:
    state = LedgerState.CLOSED
    numbers = (first, last, last - first + 1, 100, 0, 0)
    return LedgerRow(TOPIC, ledger, state, "entries", *numbers, 100 if key else None, None, key)


@given(ledgers())
def test_each_offset_is_in_exactly_one_piece(given_: tuple[TopicLog, list[LedgerRow]]) -> None:
    log, rows = given_
    pieces = list(pieces_of(log, rows))
    offsets = [offset for piece in pieces for offset in range(piece.start, piece.end)]
    assert offsets == list(range(log.start_offset, log.end_offset))
    assert all(piece.partition == 3 for piece in pieces)
    tiered = {
        offset: row.key
        for row in rows
        if row.key is not None and row.last_offset is not None
        for offset in range(row.first_offset, row.last_offset + 1)
    }
    for piece in pieces:
        for offset in range(piece.start, piece.end):
            assert tiered.get(offset) == (piece.stored.key if piece.stored else None)
