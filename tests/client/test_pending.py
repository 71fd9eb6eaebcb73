"""Frames on their way: who is acknowledged, refused, resent, given up."""

from __future__ import annotations

import pytest

from sulina.client.pending import Pending, PendingFrame
from sulina.client.tickets import FrameOutcome
from sulina.errors import (
    ProtocolError,
    StorageFull,
    SulinaError,
    TooLarge,
    Unavailable,
    UnknownOutcome,
)


class Pile:
    """Pending frames with what they reported."""

    def __init__(self, frames: int) -> None:
        self.freed = 0
        self.failed: list[FrameOutcome] = []
        self.pending = Pending(self._free, self.failed.append)
        self.outcomes = [FrameOutcome("/default/t") for _ in range(frames)]
        for number, outcome in enumerate(self.outcomes):
            self.pending.add(PendingFrame(b"%d" % number, 10, float(number), outcome))

    def _free(self, cost: int) -> None:
        self.freed += cost

    def send(self) -> list[tuple[int, bytes]]:
        return list(self.pending.to_send())


def error_of(outcome: FrameOutcome) -> SulinaError | None:
    assert outcome.settled
    return outcome.error


def test_acknowledged_frames_have_their_offsets_and_free_their_bytes() -> None:
    pile = Pile(3)
    assert pile.send() == [(0, b"0"), (1, b"1"), (2, b"2")]
    pile.pending.published(0, [100, 200])
    assert pile.outcomes[1].id_of(5).offset == 205
    assert not pile.outcomes[2].settled
    assert pile.freed == 20
    assert len(pile.pending) == 1


def test_each_frame_is_sent_once_over_a_handle() -> None:
    pile = Pile(2)
    assert len(pile.send()) == 2
    assert pile.send() == []


def test_a_refused_frame_concerns_no_other() -> None:
    pile = Pile(3)
    pile.send()
    pile.pending.refused(1, TooLarge("too large"))
    assert isinstance(error_of(pile.outcomes[1]), TooLarge)
    pile.pending.published(0, [0])
    pile.pending.published(2, [7])
    assert pile.outcomes[2].id_of(0).offset == 7
    assert pile.failed == [pile.outcomes[1]]
    assert pile.freed == 30
    assert len(pile.pending) == 0


def test_over_a_new_handle_all_that_is_open_is_sent_again_from_number_zero() -> None:
    pile = Pile(4)
    pile.send()
    pile.pending.published(0, [0])
    pile.pending.refused(2, TooLarge("x"))
    pile.pending.restart(resend_in_doubt=True)
    assert pile.send() == [(0, b"1"), (1, b"3")]


def test_frames_in_doubt_fail_where_a_repeat_would_be_worse() -> None:
    pile = Pile(3)
    next(pile.pending.to_send())
    pile.pending.restart(resend_in_doubt=False)
    assert isinstance(error_of(pile.outcomes[0]), UnknownOutcome)
    assert [data for _, data in pile.send()] == [b"1", b"2"]


def test_what_the_broker_said_it_did_not_take_is_not_in_doubt() -> None:
    pile = Pile(3)
    pile.send()
    pile.pending.interrupted(1)
    pile.pending.restart(resend_in_doubt=False)
    assert isinstance(error_of(pile.outcomes[0]), UnknownOutcome)
    assert [data for _, data in pile.send()] == [b"1", b"2"]


def test_a_frame_that_expires_tells_whether_it_may_be_stored() -> None:
    pile = Pile(3)
    waiting = pile.pending.to_send()
    next(waiting)
    assert not pile.pending.expire(0.0, StorageFull("full"))
    assert pile.pending.expire(1.5, StorageFull("full"))
    assert isinstance(error_of(pile.outcomes[0]), UnknownOutcome)
    assert isinstance(error_of(pile.outcomes[1]), StorageFull)
    assert not pile.outcomes[2].settled
    assert pile.freed == 20
    pile.pending.restart(resend_in_doubt=True)
    assert pile.send() == [(0, b"2")]


def test_failing_all_leaves_nothing() -> None:
    pile = Pile(2)
    pile.pending.fail_all(Unavailable("gone"))
    assert all(isinstance(error_of(outcome), Unavailable) for outcome in pile.outcomes)
    assert pile.freed == 20
    assert len(pile.pending) == 0


def test_answers_for_frames_that_were_not_sent_break_the_protocol() -> None:
    pile = Pile(2)
    next(pile.pending.to_send())
    with pytest.raises(ProtocolError):
        pile.pending.published(0, [0, 1])
    with pytest.raises(ProtocolError):
        pile.pending.refused(1, TooLarge("x"))
    with pytest.raises(ProtocolError):
        pile.pending.interrupted(5)


def test_a_repeat_has_an_id_without_a_place() -> None:
    pile = Pile(1)
    pile.send()
    pile.pending.published(0, [-1])
    assert pile.outcomes[0].id_of(3).offset == -1
