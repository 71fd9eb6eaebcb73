"""Rankings: a broker's load, and what each topic has of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.load.ranking import ranking_of
from broker_containers.load.report import LoadReport, TopicLoad
from broker_containers.load.settings import BalanceSettings, RankingName, Weights
from sulina.runtime.resources import Resources, Usage
from tests.load.clusters import PATIENT

BUSY = Resources(
    cpu=Usage(2, 4),
    memory=Usage(1e9, 4e9),
    disk_space=Usage(1e9, 10e9),
    disk_io=Usage(50e6),
    network_in=Usage(25e6, 125e6),
    network_out=Usage(50e6, 125e6),
)
TOPICS = (
    TopicLoad("/d/heavy", 9_000, 20e6, 9_000, 40e6, 3, 3, 5 << 30),
    TopicLoad("/d/light", 1_000, 5e6, 1_000, 10e6, 1, 1, 0),
    TopicLoad("/d/idle"),
)
REPORT = LoadReport("b", 1, BUSY, TOPICS, connections=4_000)


def test_the_simple_ranking_counts_topics() -> None:
    ranking = ranking_of(BalanceSettings(ranking=RankingName.SIMPLE))
    report = LoadReport("b", 1, BUSY, TOPICS, TopicLoad("", 5), 7)
    assert ranking.measure(report).load(7) == 10


def test_the_composite_ranking_is_a_third_each_of_topics_cpu_and_memory() -> None:
    measured = ranking_of(BalanceSettings(ranking=RankingName.COMPOSITE)).measure(REPORT)
    assert measured.load(0) == pytest.approx((3 / 10_000 + 0.5 + 0.25) / 3)
    assert measured.base == pytest.approx(0.25 / 3)


def test_the_weighted_ranking_is_the_weighted_mean_of_all_parts() -> None:
    measured = ranking_of(BalanceSettings()).measure(REPORT)
    expected = (
        0.40 * 0.5 + 0.05 * 0.25 + 0.05 * 0.1 + 0.05 * 0.25 + 0.15 * 0.2 + 0.15 * 0.4
        + 0.05 * 3 / 10_000 + 0.05 * 0.4 + 0.05 * 0.5
    )  # fmt: skip
    assert measured.load(0) == pytest.approx(expected)


def test_a_topic_costs_what_it_does() -> None:
    weights = Weights(cpu=1, memory=0, disk=0, network_in=0, network_out=0, topics=0,
                      connections=0, backlog=0)  # fmt: skip
    costs = ranking_of(BalanceSettings(weights=weights)).measure(REPORT).costs
    assert sum(costs) == pytest.approx(0.5)
    assert costs[0] > 4 * costs[1] > costs[2] == 0


def test_what_no_topic_causes_is_base() -> None:
    idle = LoadReport("b", 1, BUSY, (TopicLoad("/d/idle"),))
    measured = ranking_of(BalanceSettings()).measure(idle)
    assert measured.base > 0.3
    assert measured.costs[0] == pytest.approx(0.05 / 10_000)


@PATIENT
@given(st.integers(1, 3))
def test_topics_told_as_a_sum_cost_what_they_cost_one_by_one(detailed: int) -> None:
    ranking = ranking_of(BalanceSettings())
    whole = ranking.measure(REPORT)
    short = LoadReport.bounded("b", 1, BUSY, TOPICS, connections=4_000, detailed=detailed)
    measured = ranking.measure(short)
    assert measured.load(short.rest_count) == pytest.approx(whole.load(0))
    assert measured.work == pytest.approx(whole.work)
