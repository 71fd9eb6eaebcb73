"""Where topics go that need a broker, rankings by load, and validated settings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.load.decision import MoveReason, NewTopic, SkipReason
from broker_containers.load.placement import drain, failover, manual_move, place
from broker_containers.load.ranking import ranking_of
from broker_containers.load.report import LoadReport, TopicLoad
from broker_containers.load.rules import PlacementRule
from broker_containers.load.settings import BalanceSettings, Full, RankingName, Weights
from broker_containers.load.view import BrokerLoad, ClusterView
from sulina.errors import NotFound, Refused
from sulina.metadata.keys.members import BrokerMode
from sulina.runtime.resources import Resources, Usage
from tests.load.clusters import PATIENT, cluster

SETTINGS = BalanceSettings()


def new(count: int, **values: float) -> list[NewTopic]:
    return [NewTopic(f"/default/new-{number}", **values) for number in range(count)]


def test_a_new_topic_goes_to_the_least_loaded_broker() -> None:
    view = cluster({"a": [0.5], "b": [0.1], "c": [0.3]})
    assert place(view, new(1), SETTINGS).assigned == {"/default/new-0": "b"}


def test_many_topics_at_once_do_not_all_land_on_one_broker() -> None:
    view = cluster({"a": [0.02] * 10, "b": [], "c": [0.02] * 5})
    counts = Counter(place(view, new(300), SETTINGS).assigned.values())
    assert max(counts.values()) - min(counts.values()) == 10


def test_topics_that_come_one_by_one_spread_over_brokers_that_idle_unevenly() -> None:
    topics: dict[str, list[str]] = {"a": [], "b": [], "c": []}
    idling = {"a": 0.011, "b": 0.017, "c": 0.014}
    for topic in new(9):
        view = ClusterView.of(
            (
                BrokerLoad(name, topics[name], [1e-6] * len(topics[name]), base=idling[name])
                for name in topics
            ),
            quiet=0.02,
        )
        topics[place(view, [topic], SETTINGS).assigned[topic.name]].append(topic.name)
    assert [len(each) for each in topics.values()] == [3, 3, 3]


def test_topics_of_a_cluster_without_any_report_spread_evenly() -> None:
    view = ClusterView.of(BrokerLoad(f"b{number}", trust=0.0) for number in range(3))
    counts = Counter(place(view, new(9), SETTINGS).assigned.values())
    assert counts == {"b0": 3, "b1": 3, "b2": 3}


def test_a_broker_that_is_silent_gets_nothing_while_others_are_there() -> None:
    view = ClusterView.of(
        [BrokerLoad("a", ["/d/1"], [0.5]), BrokerLoad("empty-and-silent", trust=0.0)]
    )
    assert set(place(view, new(20), SETTINGS).assigned.values()) == {"a"}


def test_excluded_draining_and_black_listed_brokers_get_nothing() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/d/1"], [0.5]),
            BrokerLoad("b"),
            BrokerLoad("c", state=BrokerMode.DRAINING),
            BrokerLoad("d"),
        ]
    )
    settings = replace(SETTINGS, blacklist_brokers=("d",))
    assert set(place(view, new(5), settings, exclude={"b"}).assigned.values()) == {"a"}
    alone = ClusterView.of([BrokerLoad("c", state=BrokerMode.DRAINING)])
    assert place(alone, new(1), SETTINGS).unplaced == {"/default/new-0": SkipReason.NO_BROKER}


def test_a_hint_keeps_heavy_topics_apart() -> None:
    view = replace(cluster({"a": [], "b": []}), cost_of_work=1e-5)
    heavy = [NewTopic("/d/heavy-1", records=50_000), NewTopic("/d/heavy-2", records=50_000)]
    light = [NewTopic(f"/d/light-{number}", records=10) for number in range(8)]
    assigned = place(view, [*light, *heavy], SETTINGS).assigned
    assert assigned["/d/heavy-1"] != assigned["/d/heavy-2"]


def test_a_broker_whose_load_will_grow_is_not_the_least_loaded() -> None:
    view = ClusterView.of(
        [BrokerLoad("a", ["/d/1"], [0.2], growth=3.0), BrokerLoad("b", ["/d/2"], [0.3])]
    )
    assert set(place(view, new(1), SETTINGS).assigned.values()) == {"b"}


def test_partitions_of_a_topic_spread_over_the_brokers() -> None:
    view = cluster({"a": [0.5], "b": [0.0], "c": [0.3]})
    parts = [NewTopic(f"/d/t-part-{number}") for number in range(6)]
    counts = Counter(place(view, parts, SETTINGS).assigned.values())
    assert counts == {"a": 2, "b": 2, "c": 2}


def test_topics_of_a_rule_are_kept_apart() -> None:
    settings = replace(SETTINGS, rules=(PlacementRule("/d/replica-*", apart=True),))
    view = cluster({"a": [0.5], "b": [], "c": [0.3]})
    assigned = place(view, [NewTopic(f"/d/replica-{n}") for n in range(3)], settings).assigned
    assert set(assigned.values()) == {"a", "b", "c"}


def test_a_strict_rule_leaves_a_topic_unplaced_and_a_soft_one_does_not() -> None:
    view = cluster({"a": [], "b": []})
    strict = replace(SETTINGS, rules=(PlacementRule("/default/*", require=("gpu",)),))
    soft = replace(SETTINGS, rules=(PlacementRule("/default/*", require=("gpu",), strict=False),))
    assert place(view, new(1), strict).unplaced == {"/default/new-0": SkipReason.AFFINITY}
    assert len(place(view, new(1), soft).assigned) == 1


def test_a_soft_rule_is_followed_where_it_can_be() -> None:
    view = ClusterView.of(
        [BrokerLoad("a", ["/d/1"], [0.9], labels=frozenset({"gpu"})), BrokerLoad("b")]
    )
    soft = replace(SETTINGS, rules=(PlacementRule("/default/*", require=("gpu",), strict=False),))
    assert set(place(view, new(3), soft).assigned.values()) == {"a"}


def test_topics_of_a_dead_broker_spread_by_what_they_cost() -> None:
    view = cluster({"dead": [0.4, 0.1, 0.1, 0.1, 0.1], "a": [0.2], "b": [0.2]})
    assigned = failover(view, "dead", SETTINGS).assigned
    assert len(assigned) == 5
    heavy = assigned["/default/dead-0"]
    assert all(assigned[f"/default/dead-{n}"] != heavy for n in range(1, 5))


def test_a_broker_is_drained_in_portions() -> None:
    view = cluster({"a": [0.1, 0.3, 0.2], "b": [], "c": []})
    moves, placement = drain(view, "a", SETTINGS, limit=2)
    assert [(move.topic, move.why) for move in moves] == [
        ("/default/a-1", MoveReason.DRAIN),
        ("/default/a-2", MoveReason.DRAIN),
    ]
    assert placement.unplaced == {}
    with pytest.raises(NotFound, match="no broker x"):
        drain(view, "x", SETTINGS)


def test_a_person_may_move_a_topic_within_the_rules_or_by_force() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/d/1"], [0.5]),
            BrokerLoad("b", labels=frozenset({"spot"})),
            BrokerLoad("c", state=BrokerMode.DRAINING),
            BrokerLoad("d"),
        ]
    )
    settings = replace(
        SETTINGS, rules=(PlacementRule("/d/*", avoid=("spot",)),), blacklist_brokers=("d",)
    )
    for target, complaint in (("b", "a rule"), ("c", "draining"), ("d", "black"), ("a", "already")):
        with pytest.raises(Refused, match=complaint):
            manual_move(view, "/d/1", target, settings)
    move = manual_move(view, "/d/1", "b", settings, force=True)
    assert (move.source, move.target, move.cost, move.why) == ("a", "b", 0.5, MoveReason.MANUAL)
    with pytest.raises(NotFound, match="/d/2 has no broker"):
        manual_move(view, "/d/2", "b", settings)


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


@pytest.mark.parametrize(
    ("make", "complaint"),
    [
        (lambda: BalanceSettings(high_stop=1.2), "thresholds must rise"),
        (lambda: BalanceSettings(low_start=0.9), "thresholds must rise"),
        (lambda: Weights(cpu=-1), "0 or more"),
        (lambda: Weights(**dict.fromkeys(Weights().shares(), 0.0)), "at least one"),
        (lambda: Full(topics=0), "above 0"),
        (lambda: BalanceSettings(moves_per_interval=0), "set enabled to false"),
        (lambda: BalanceSettings(load_per_interval=1.5), "at most 1"),
        (lambda: BalanceSettings(stale_seconds=1), "more than fresh_seconds"),
        (lambda: BalanceSettings(confirm_seconds=-1), "negative"),
        (lambda: BalanceSettings(confirm_seconds=float("nan")), "negative"),
        (lambda: BalanceSettings(smoothing_seconds=0), "more than 0"),
        (lambda: PlacementRule.from_dict({"pattern": "payments"}), "start with '/'"),
        (lambda: PlacementRule.from_dict({"pattern": "/p/*"}), "says nothing"),
        (lambda: PlacementRule("/p/*", require=("a",), avoid=("a",)), "requires and avoids"),
        (lambda: PlacementRule.from_dict({"labels": ["a"]}), "not a rule"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_remedy(
    make: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(Refused, match=complaint):
        make()


def test_only_the_proportions_of_weights_matter() -> None:
    tenfold = {name: 10 * share for name, share in Weights().shares().items()}
    assert Weights(**tenfold).shares() == pytest.approx(Weights().shares())
    assert sum(Weights().shares().values()) == pytest.approx(1)
