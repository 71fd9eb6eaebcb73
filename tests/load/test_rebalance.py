"""When topics move, when they do not, and that the reason is counted."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from broker_containers.load.decision import Move, MoveReason, SkipReason
from broker_containers.load.move_log import MAX_MOVES, MoveLog
from broker_containers.load.rules import PlacementRule
from broker_containers.load.settings import BalanceSettings
from broker_containers.load.view import BrokerLoad, ClusterView, balance_of
from sulina.errors import Refused
from sulina.metadata.keys.members import BrokerMode
from tests.load.clusters import AT_ONCE, after, cluster, loads, owners, plan


def ten_full_and_one_empty() -> ClusterView:
    full = {f"b{number}": [0.01] * 80 for number in range(10)}
    return cluster({**full, "empty": []})


def test_ten_brokers_at_80_percent_and_an_empty_one_are_an_imbalance() -> None:
    view = ten_full_and_one_empty()
    made = plan(view)
    result = loads(after(view, made))
    mean = 8.0 / 11
    assert result["empty"] >= 0.84 * mean
    assert max(result.values()) <= 1.08 * mean
    assert {move.target for move in made.moves} == {"empty"}


def test_ten_brokers_at_80_percent_are_balanced() -> None:
    made = plan(cluster({f"b{number}": [0.01] * 80 for number in range(10)}))
    assert made.moves == ()
    assert made.reasons == {SkipReason.BALANCED: 1}


def test_a_single_huge_topic_is_not_tossed_around() -> None:
    view = cluster({"a": [5.0], "b": [0.5] * 2, "c": [0.4] * 2})
    made = plan(view)
    assert made.moves == ()
    assert made.reasons[SkipReason.TOO_BIG] > 0


def test_small_topics_leave_the_broker_of_a_huge_one() -> None:
    view = cluster({"a": [5.0, 0.2, 0.2, 0.1], "b": [0.5] * 2, "c": [0.4] * 2})
    made = plan(view)
    assert {move.source for move in made.moves} == {"a"}
    assert after(view, made).brokers["a"].costs == [5.0]


def test_two_heavy_topics_are_parted_although_neither_fits_below_the_mean() -> None:
    view = cluster({"a": [1.0, 1.0], "b": [1.0], "c": [], "d": []})
    made = plan(view)
    assert len(made.moves) == 1
    assert after(view, made).brokers["a"].load == 1.0


def test_no_more_moves_than_the_bound_asks_for() -> None:
    view = cluster({"a": [0.01] * 120, "b": [0.01] * 90, "c": [0.01] * 90})
    made = plan(view)
    assert len(made.moves) == 12
    assert made.after.max_over_mean == pytest.approx(1.08)
    assert made.moved_share == pytest.approx(12 / 300)


def test_between_the_two_bounds_nothing_starts_but_what_started_goes_on() -> None:
    view = cluster({"a": [0.01] * 109, "b": [0.01] * 91})
    assert plan(view).moves == ()
    going_on = MoveLog(outside={"a": -100.0})
    assert len(plan(view, log=going_on).moves) == 1


def test_an_imbalance_must_last_before_anything_moves() -> None:
    view = cluster({"a": [0.1] * 10, "b": []})
    settings = replace(AT_ONCE, confirm_seconds=60)
    log = MoveLog()
    first = plan(view, settings, log, 0.0)
    log.commit(first, 0.0)
    assert (first.moves, first.reasons[SkipReason.CONFIRMING]) == ((), 2)
    balanced = plan(cluster({"a": [0.1] * 5, "b": [0.1] * 5}), settings, log, 30.0)
    log.commit(balanced, 30.0)
    second = plan(view, settings, log, 60.0)
    log.commit(second, 60.0)
    assert second.moves == ()
    assert plan(view, settings, log, 120.0).moves


def test_moves_of_a_window_are_limited() -> None:
    view = cluster({"a": [0.01] * 100, "b": []})
    settings = replace(AT_ONCE, moves_per_interval=7)
    log = MoveLog()
    made = plan(view, settings, log, 0.0)
    log.commit(made, 0.0)
    assert len(made.moves) == 7
    assert made.reasons[SkipReason.MOVE_LIMIT] > 0
    view = after(view, made)
    assert plan(view, settings, log, 30.0).moves == ()
    assert len(plan(view, settings, log, 61.0).moves) == 7


def test_moves_of_one_broker_are_limited() -> None:
    view = cluster({"a": [0.01] * 100, "b": [], "c": []})
    made = plan(view, replace(AT_ONCE, moves_per_broker=5))
    assert len(made.moves) == 5
    assert made.reasons[SkipReason.BROKER_MOVE_LIMIT] > 0


def test_the_load_of_a_window_is_limited_but_one_move_is_always_allowed() -> None:
    view = cluster({"a": [0.01] * 100, "b": []})
    made = plan(view, replace(AT_ONCE, load_per_interval=0.1))
    assert made.moved_share == pytest.approx(0.1)
    assert made.reasons[SkipReason.LOAD_LIMIT] > 0
    coarse = cluster({"a": [0.25] * 4, "b": []})
    assert len(plan(coarse, replace(AT_ONCE, load_per_interval=0.1)).moves) == 1


def test_a_topic_that_moved_stays_for_a_while_and_does_not_return() -> None:
    settings = replace(AT_ONCE, broker_cooldown_seconds=0)
    log = MoveLog()
    log.record([_move("/default/x", "b", "c")], 0.0)
    crowded = ClusterView.of(
        [BrokerLoad("b", [], []), BrokerLoad("c", ["/default/x", "/default/y"], [0.3, 0.3])]
    )
    early = plan(crowded, settings, log, 100.0)
    assert [move.topic for move in early.moves] == ["/default/y"]
    assert early.reasons[SkipReason.TOPIC_COOLDOWN] == 1
    only = ClusterView.of(
        [BrokerLoad("b"), BrokerLoad("c", ["/default/x", "/default/y"], [0.3, 0.9])]
    )
    later = plan(only, settings, log, 2_000.0)
    assert "/default/x" not in {move.topic for move in later.moves}
    assert later.reasons[SkipReason.RETURNING] >= 1
    assert "/default/x" in {move.topic for move in plan(only, settings, log, 8_000.0).moves}


def test_a_broker_that_just_got_topics_gives_none_away() -> None:
    log = MoveLog()
    log.record([_move("/default/other", "c", "a")], 0.0)
    view = cluster({"a": [0.1] * 10, "b": []})
    made = plan(view, log=log, now=10.0)
    assert made.moves == ()
    assert made.reasons[SkipReason.BROKER_COOLDOWN] >= 1
    assert plan(view, log=log, now=700.0).moves


def test_a_broker_that_just_gave_topics_away_gets_none() -> None:
    log = MoveLog()
    log.record([_move("/default/other", "b", "c")], 0.0)
    made = plan(cluster({"a": [0.1] * 10, "b": [], "c": [0.5]}), log=log, now=10.0)
    assert {move.target for move in made.moves} == {"c"}
    assert made.reasons[SkipReason.BROKER_COOLDOWN] == 1


def test_black_lists_are_obeyed() -> None:
    view = cluster({"a": [0.1] * 10, "b": [], "c": []})
    made = plan(view, replace(AT_ONCE, blacklist_topics=("/default/a-*",)))
    assert (made.moves, made.reasons[SkipReason.TOPIC_BLACKLISTED]) == ((), 10)
    made = plan(view, replace(AT_ONCE, blacklist_brokers=("b",)))
    assert {move.target for move in made.moves} == {"c"}
    assert made.reasons[SkipReason.BROKER_BLACKLISTED] == 1


def test_a_broker_with_an_old_report_neither_gives_nor_gets() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/d/1", "/d/2", "/d/3", "/d/4"], [0.2] * 4),
            BrokerLoad("b", ["/d/5"], [0.2]),
            BrokerLoad("silent", trust=0.1),
        ]
    )
    made = plan(view)
    assert {move.target for move in made.moves} == {"b"}
    assert made.reasons[SkipReason.STALE_REPORT] == 1


def test_a_leader_that_sees_few_reports_does_nothing() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/d/1", "/d/2"], [0.5] * 2),
            BrokerLoad("b"),
            BrokerLoad("c", trust=0),
            BrokerLoad("d", trust=0),
        ]
    )
    assert plan(view).reasons[SkipReason.BLIND] == 1


def test_draining_brokers_get_nothing() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/d/1", "/d/2", "/d/3"], [0.2] * 3),
            BrokerLoad("b", state=BrokerMode.DRAINING),
            BrokerLoad("c"),
        ]
    )
    made = plan(view)
    assert {move.target for move in made.moves} == {"c"}
    assert made.reasons[SkipReason.DRAINING] == 1


@pytest.mark.parametrize(
    ("view", "settings", "reason"),
    [
        (cluster({"a": [1.0] * 4, "b": []}), replace(AT_ONCE, enabled=False), SkipReason.DISABLED),
        (cluster({"a": [1.0] * 4}), AT_ONCE, SkipReason.TOO_FEW_BROKERS),
    ],
)
def test_not_acting_has_a_reason(
    view: ClusterView, settings: BalanceSettings, reason: SkipReason
) -> None:
    made = plan(view, settings)
    assert (made.moves, made.reasons) == ((), {reason: 1})


def test_a_quiet_cluster_is_left_alone() -> None:
    busy = cluster({"a": [0.001] * 10, "b": []})
    quiet = ClusterView(busy.brokers, quiet=0.02)
    assert plan(quiet).reasons == {SkipReason.QUIET: 1}
    assert plan(busy).moves


def test_a_dry_run_says_so_and_plans_the_same() -> None:
    view = cluster({"a": [0.1] * 10, "b": []})
    made = plan(view, replace(AT_ONCE, dry_run=True))
    assert made.dry_run
    assert made.moves == plan(view).moves


def test_a_slower_broker_ends_up_with_fewer_topics_and_the_same_load() -> None:
    names = [f"/d/{number}" for number in range(300)]
    view = ClusterView.of(
        [BrokerLoad("a", names, [0.01] * 300), BrokerLoad("b"), BrokerLoad("slow", factor=2.0)]
    )
    result = after(view, plan(view))
    slow, fast = result.brokers["slow"], result.brokers["b"]
    assert len(slow.topics) < 0.7 * len(fast.topics)
    assert slow.load == pytest.approx(fast.load, rel=0.25)


def test_a_rule_added_later_brings_topics_where_they_belong() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/pay/1", "/d/1"], [0.2, 0.2], labels=frozenset({"zone=a"})),
            BrokerLoad("b", ["/d/2", "/d/3"], [0.2, 0.2], labels=frozenset({"zone=b"})),
        ]
    )
    made = plan(view, replace(AT_ONCE, rules=(PlacementRule("/pay/*", require=("zone=b",)),)))
    assert [(move.topic, move.target, move.why) for move in made.moves][:1] == [
        ("/pay/1", "b", MoveReason.AFFINITY)
    ]


def test_a_rule_is_obeyed_although_the_only_broker_for_it_is_full() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", ["/d/1", "/d/2", "/d/3"], [0.5] * 3, labels=frozenset({"pci"})),
            BrokerLoad("b", ["/pay/1"], [0.2]),
        ]
    )
    made = plan(view, replace(AT_ONCE, rules=(PlacementRule("/pay/*", require=("pci",)),)))
    assert owners(after(view, made))["/pay/1"] == "a"


def test_a_topic_is_not_moved_to_a_broker_that_its_rule_forbids() -> None:
    view = ClusterView.of(
        [
            BrokerLoad("a", [f"/pay/{n}" for n in range(9)], [0.1] * 9, labels=frozenset({"pci"})),
            BrokerLoad("b"),
        ]
    )
    made = plan(view, replace(AT_ONCE, rules=(PlacementRule("/pay/*", require=("pci",)),)))
    assert made.moves == ()
    assert made.reasons[SkipReason.AFFINITY] > 0


def test_partitions_are_not_moved_together() -> None:
    full = BrokerLoad("a", ["/d/t-part-0", "/d/x", "/d/y"], [0.3, 0.3, 0.3])
    view = ClusterView.of([full, BrokerLoad("b", ["/d/t-part-1"], [0.1])])
    made = plan(view)
    assert made.moves
    assert owners(after(view, made))["/d/t-part-0"] == "a"


def test_the_best_that_is_possible_counts_the_heaviest_topic() -> None:
    balance = balance_of(cluster({"a": [5.0], "b": [1.0], "c": [0.0]}).brokers.values())
    assert balance.mean == 2.0
    assert balance.max_over_mean == 2.5
    assert balance.max_over_bound == 1.0


def test_a_new_leader_reads_the_log_and_goes_on() -> None:
    view = cluster({"a": [0.01] * 100, "b": []})
    settings = replace(AT_ONCE, moves_per_interval=7)
    log = MoveLog()
    made = plan(view, settings, log, 1_000.0)
    log.commit(made, 1_000.0)
    heir = MoveLog.from_bytes(log.to_bytes(now=1_010.0), now=5.0)
    assert plan(after(view, made), settings, heir, 5.0).moves == ()
    resumed = plan(after(view, made), settings, heir, 56.0)
    assert len(resumed.moves) == 7
    assert not {move.topic for move in resumed.moves} & {move.topic for move in made.moves}


def test_a_log_that_is_none_is_refused_in_a_sentence() -> None:
    for data in (b"", b"[]", b"{}", b'{"outside":{},"moves":[[1]]}', b'{"outside":3,"moves":[]}'):
        with pytest.raises(Refused, match="not a log of moves"):
            MoveLog.from_bytes(data, now=0.0)


def test_the_log_is_bounded_and_forgets() -> None:
    log = MoveLog()
    log.record([_move(f"/d/{number}", "a", "b") for number in range(MAX_MOVES + 10)], 0.0)
    log.record([_move("/d/last", "a", "b")], 100.0)
    assert len(log.since(0.0)) == MAX_MOVES
    stored = log.to_bytes(now=100.0, max_bytes=10_000)
    assert 9_800 < len(stored) <= 10_000
    assert MoveLog.from_bytes(stored, now=0.0).since(-1.0)[-1].topic == "/d/last"
    log.forget_before(50.0)
    assert [one.topic for one in log.since(0.0)] == ["/d/last"]


def test_a_plan_can_be_shown_as_json() -> None:
    made = plan(cluster({"a": [0.1] * 10, "b": []}))
    shown = json.loads(json.dumps(made.to_dict()))
    assert len(shown["moves"]) == len(made.moves) > 0
    assert shown["before"]["max_over_mean"] == 2.0
    assert shown["outside"] == ["a", "b"]


def _move(topic: str, source: str, target: str) -> Move:
    return Move(topic, source, target, 0.1, MoveReason.OVERLOAD)


def test_filling_a_slow_broker_does_not_make_it_the_fullest() -> None:
    busy = BrokerLoad("b0", [f"/d/t{n}" for n in range(5)], [1.0, 42.0, 60.0, 1.75, 10.5])
    other = BrokerLoad("b1", ["/d/o"], [27.0], base=5.0)
    slow = BrokerLoad("b2", base=5.0, factor=2.0)
    view = ClusterView.of([busy, other, slow])
    moved = view.moved((move.topic, move.target) for move in plan(view).moves)
    assert max(one.load for one in moved.brokers.values()) <= busy.load
