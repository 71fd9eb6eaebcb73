"""What is made of the acknowledgements around the loss of a node."""

from __future__ import annotations

import pytest

from benchmarks.node_loss import NodeLoss


def test_the_pause_is_the_longest_time_without_an_acknowledgement_after_the_kill() -> None:
    # Acknowledged at -1.9, -0.9, 0.1, 0.8, 0.9.
    loss = NodeLoss(due=[-2.0, -1.0, -0.1, 0.1, 0.8], latency=[0.1, 0.1, 0.2, 0.7, 0.1])
    assert loss.pause == pytest.approx(0.7)


def test_silence_right_after_the_kill_counts_as_a_pause() -> None:
    loss = NodeLoss(due=[-0.5, 0.1], latency=[0.1, 0.5])
    assert loss.pause == pytest.approx(0.6)


def test_without_any_acknowledgement_after_the_kill_the_pause_has_no_end() -> None:
    assert NodeLoss(due=[-0.5], latency=[0.1]).pause == float("inf")


def test_latency_is_told_apart_by_when_a_record_was_due() -> None:
    loss = NodeLoss(due=[-1.0, -0.1, 0.0, 1.0], latency=[0.001, 0.5, 0.002, 0.003])
    assert loss.around(after=False).worst == pytest.approx(500)
    assert loss.around(after=True).worst == pytest.approx(3)
