"""What holds for any cluster, and for simulated days with the real decisions."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.balance.__main__ import main
from benchmarks.balance.run import (
    BalanceEvent,
    BalanceEventKind,
    BalanceOutcome,
    Scenario,
    simulate,
)
from benchmarks.balance.start import measure_start
from benchmarks.balance.workload import WorkloadShape
from benchmarks.balance.world import Trouble
from broker_containers.load.decision import NewTopic
from broker_containers.load.move_log import MoveLog
from broker_containers.load.placement import drain, failover, place
from broker_containers.load.rebalance import Rebalancer
from broker_containers.load.rules import PlacementRule
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import BrokerLoad, ClusterView
from tests.load.clusters import AT_ONCE, PATIENT, after, clusters, loads, owners, plan

FEW = settings(PATIENT, max_examples=15)
RULES = replace(
    AT_ONCE,
    rules=(
        PlacementRule("/ns0/*", require=("zone=a",)),
        PlacementRule("/ns1/*", avoid=("zone=a",)),
        PlacementRule("/ns2/b1*", apart=True),
    ),
)
TOPICS = st.lists(
    st.builds(
        NewTopic,
        st.integers(0, 10_000).map(lambda number: f"/ns{number % 3}/new-{number}"),
        cost=st.none() | st.floats(0, 50),
    ),
    max_size=20,
    unique_by=lambda topic: topic.name,
)


@PATIENT
@given(clusters())
def test_a_plan_moves_topics_from_where_they_are_and_loses_none(view: ClusterView) -> None:
    made = plan(view)
    before, now = owners(view), owners(after(view, made))
    assert before.keys() == now.keys()
    assert len({move.topic for move in made.moves}) == len(made.moves)
    for move in made.moves:
        assert before[move.topic] == move.source != move.target == now[move.topic]


@PATIENT
@given(clusters())
def test_a_plan_never_makes_the_fullest_broker_fuller(view: ClusterView) -> None:
    made = plan(view)
    old, new = loads(view), loads(after(view, made))
    assert max(new.values()) <= max(old.values()) + 1e-9
    receivers = {move.target for move in made.moves}
    givers = {move.source for move in made.moves}
    assert not receivers & givers
    for broker in receivers:
        assert new[broker] < max(old[giver] for giver in givers)
    assert abs(made.after.highest - max(_believed(after(view, made)), default=0)) < 1e-6


@PATIENT
@given(clusters())
def test_the_same_view_gives_the_same_plan_and_carrying_it_out_twice_changes_nothing(
    view: ClusterView,
) -> None:
    made = plan(view)
    assert plan(view) == made
    once = after(view, made)
    assert owners(after(once, made)) == owners(once)


@PATIENT
@given(clusters())
def test_planning_again_and_again_comes_to_rest(view: ClusterView) -> None:
    free = replace(AT_ONCE, topic_cooldown_seconds=0, return_seconds=0, broker_cooldown_seconds=0)
    log = MoveLog()
    for round_ in range(40):
        made = plan(view, free, log, float(round_))
        log.commit(made, float(round_))
        view = after(view, made)
        if not made.moves:
            break
    assert made.moves == ()


@PATIENT
@given(clusters())
def test_rules_are_kept_or_mended_and_never_broken(view: ClusterView) -> None:
    made = plan(view, RULES)
    book = RULES.rule_book()
    assert len({move.topic for move in made.moves}) == len(made.moves)
    for move in made.moves:
        assert book.requirements(move.topic).fits(view.brokers[move.target].labels)


@PATIENT
@given(clusters(), TOPICS)
def test_every_topic_is_placed_exactly_once_or_has_a_reason(
    view: ClusterView, topics: list[NewTopic]
) -> None:
    placement = place(view, topics, RULES)
    assert placement == place(view, list(reversed(topics)), RULES)
    assert placement.assigned.keys() | placement.unplaced.keys() == {one.name for one in topics}
    assert not placement.assigned.keys() & placement.unplaced.keys()
    book = RULES.rule_book()
    for topic, broker in placement.assigned.items():
        assert book.requirements(topic).fits(view.brokers[broker].labels)
    for topic in placement.unplaced:
        assert not any(book.requirements(topic).fits(one.labels) for one in view.brokers.values())


@PATIENT
@given(clusters())
def test_failover_and_drain_leave_nothing_behind_while_another_broker_lives(
    view: ClusterView,
) -> None:
    gone = view.brokers["b0"]
    placement = failover(view, "b0", AT_ONCE)
    moves, _ = drain(view, "b0", AT_ONCE)
    assert "b0" not in placement.assigned.values()
    if len(view.brokers) > 1:
        assert placement.assigned.keys() == set(gone.topics)
        assert view.moved((one.topic, one.target) for one in moves).brokers["b0"].topics == []


@FEW
@given(st.integers(0, 1_000_000), st.floats(0.0, 0.10))
def test_noise_alone_does_not_make_topics_flap(seed: int, noise: float) -> None:
    chance = random.Random(seed)
    brokers = {
        f"b{number}": {f"/d/{number}-{n}": chance.paretovariate(2.5) for n in range(20)}
        for number in range(6)
    }
    rebalancer, log = Rebalancer(BalanceSettings()), MoveLog()
    homes: dict[str, list[str]] = {}
    late_moves = 0
    for minute in range(240):
        view = ClusterView.of(
            BrokerLoad(
                name,
                list(topics),
                [cost * chance.uniform(1 - noise, 1 + noise) for cost in topics.values()],
            )
            for name, topics in brokers.items()
        )
        now = minute * 60.0
        made = rebalancer.plan(view, log, now)
        log.commit(made, now)
        late_moves += len(made.moves) if minute >= 60 else 0
        for move in made.moves:
            brokers[move.target][move.topic] = brokers[move.source].pop(move.topic)
            assert move.target not in homes.setdefault(move.topic, [])
            homes[move.topic].append(move.source)
    assert late_moves <= 6


def _believed(view: ClusterView) -> list[float]:
    return [one.load for one in view.brokers.values() if one.trust >= AT_ONCE.min_trust]


HOUR = 3_600.0
SMALL = Scenario("small", brokers=8, topics=240, hours=24, alpha=2.5, step=120)


def test_24_hours_of_steady_load_end_balanced_and_without_oscillation() -> None:
    outcome = simulate(SMALL)
    figures = outcome.summary()
    assert figures["oscillations"] == 0
    assert figures["moves_after_first_hour"] <= 3  # noise alone may push somebody over a bound
    assert figures["moves"] > 0
    assert figures["max_over_bound_end"] <= 1.15
    assert figures["max_over_mean_start"] > 1.2


def test_a_run_follows_from_its_seed() -> None:
    short = replace(SMALL, hours=2, shape=WorkloadShape.FLASH, trouble=Trouble(0.1, 0.1, 0.1))
    one, two = simulate(short), simulate(short)
    assert one.points == two.points
    assert simulate(replace(short, seed=2)).points != one.points


def test_lost_and_late_reports_do_not_make_topics_flap() -> None:
    noisy = replace(SMALL, hours=12, trouble=Trouble(noise=0.2, lost=0.3, late=0.2))
    figures = simulate(noisy).summary()
    assert figures["oscillations"] == 0
    assert figures["max_over_bound_end"] < 1.2
    assert figures["reasons"]["stale_report"] > 0


def test_an_empty_broker_that_joins_ten_full_ones_is_filled() -> None:
    outcome = simulate(
        Scenario(
            "joined",
            brokers=10,
            topics=500,
            hours=2,
            alpha=0,
            utilisation=0.8,
            events=(BalanceEvent(HOUR, BalanceEventKind.JOIN),),
        )
    )
    assert outcome.points[-1].brokers == 11
    assert outcome.points[-1].max_over_mean < 1.10
    assert outcome.points[-1].cv < 0.1


def test_topics_of_a_dead_broker_are_served_again_and_a_slow_one_gets_less() -> None:
    events = (
        BalanceEvent(1.0 * HOUR, BalanceEventKind.DIE, 2),
        BalanceEvent(2.0 * HOUR, BalanceEventKind.SLOW),
        BalanceEvent(4.0 * HOUR, BalanceEventKind.RECOVER),
    )
    on = simulate(replace(SMALL, hours=4, events=events, step=60))
    off = simulate(replace(SMALL, hours=4, events=events, step=60, balancing=False))
    assert on.points[-1].brokers == 6
    assert on.failover_pause > 0
    assert off.moves == 0
    assert _worst_after(on, 3.0) < 1.3 < _worst_after(off, 3.0)


@pytest.mark.parametrize("alpha", [0.0, 2.5])
def test_a_random_start_reaches_the_goal_with_little_more_than_the_least_possible(
    alpha: float,
) -> None:
    result = measure_start(100, 10_000, alpha, seed=3)
    assert result.max_over_bound_after <= 1.10
    assert result.moved_to_goal is not None
    assert result.least_for_bound <= result.moved_to_goal <= result.moved_share
    assert result.moved_share <= result.least_for_mean + 0.01


@pytest.mark.slow
def test_a_thousand_brokers_with_skewed_topics_reach_the_goal_moving_less_than_2_percent() -> None:
    result = measure_start(1_000, 100_000, 2.5, seed=1)
    assert result.max_over_bound_after <= 1.10
    assert result.moved_to_goal is not None and result.moved_to_goal <= 0.02


def test_the_command_prints_tables_and_writes_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--quick", "--no-plot", "--hours", "0.5", "--scenarios", "steady"]
    monkeypatch.setattr(
        sys, "argv", ["balance", *arguments, "--sizes", "10x100", "--json", "--out", str(tmp_path)]
    )
    assert main() == 0
    printed = capsys.readouterr()
    assert "oscillations" in printed.err
    document = json.loads(printed.out)
    assert document == json.loads((tmp_path / "balance.json").read_text())
    assert [one["balancing"] for one in document["scenarios"]] == [True, False]
    assert document["starts"][0]["brokers"] == 10


def test_a_wrong_option_is_answered_with_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for wrong in (
        ["--sizes", "many"],
        ["--scenarios", "doom"],
        ["--alphas", "0.5"],
        ["--hours", "x"],
    ):
        monkeypatch.setattr(sys, "argv", ["balance", *wrong])
        with pytest.raises(SystemExit):
            main()
        assert "Traceback" not in capsys.readouterr().err


def _worst_after(outcome: BalanceOutcome, hours: float) -> float:
    return max(one.max_over_mean for one in outcome.points if hours <= one.hours < hours + 0.9)
