"""From reports to decisions: smoothing, silence, illness, machines of different size, forecast."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker_containers.load.decision import NewTopic, SkipReason
from broker_containers.load.history import MAX_SWING, SAMPLES, LoadHistory, Profile, between
from broker_containers.load.manager import LoadManager
from broker_containers.load.move_history import MAX_BYTES, MOST_NAMES, MoveHistory
from broker_containers.load.report import LoadReport
from broker_containers.load.settings import BalanceSettings, RankingName
from broker_containers.load.view import BrokerInfo, ClusterView
from sulina.errors import Refused
from tests.load.clusters import report

INFOS = [BrokerInfo("a"), BrokerInfo("b"), BrokerInfo("c")]
TOPICS = {name: [f"/d/{name}-{n}" for n in range(10)] for name in "abc"}
HOUR = 3_600.0


def observe(manager: LoadManager, one: LoadReport, now: float) -> bool:
    """The first report of a broker counts from the next view on, so have one."""
    taken = manager.observe(one, now=now, wall_us=int(now * 1e6))
    view_of(manager, now)
    return taken


def even(manager: LoadManager, now: float, *, brokers: str = "abc", rate: float = 500.0) -> None:
    for name in brokers:
        observe(manager, report(name, dict.fromkeys(TOPICS[name], rate), seconds=now), now)


def view_of(manager: LoadManager, now: float) -> ClusterView:
    return manager.view(INFOS, TOPICS, now=now, wall_us=int(now * 1e6))


def swing(history: LoadHistory, hour: float) -> float:
    """Of one topic, from this hour to the next."""
    return history.forecast(int(hour * HOUR * 1e6), HOUR).swing("/d/a-0")


def test_a_view_has_the_load_that_reports_tell() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 100.0)
    view = view_of(manager, 100.0)
    # 5,000 records a second use half a core of four, and CPU has 0.4 of the weight.
    assert view.brokers["a"].load == pytest.approx(0.4 * 0.125, rel=0.01)
    assert view.brokers["a"].trust == 1.0


def test_a_spike_in_one_report_is_smoothed() -> None:
    manager = LoadManager(BalanceSettings())
    for now in range(0, 300, 10):
        even(manager, float(now))
    calm = view_of(manager, 300.0).brokers["a"].load
    observe(manager, report("a", dict.fromkeys(TOPICS["a"], 5_000.0), seconds=300), 300.0)
    assert calm < view_of(manager, 300.0).brokers["a"].load < 2 * calm


def test_a_topic_takes_its_cost_with_it_before_the_new_broker_has_reported() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 0.0)
    moved = {"a": TOPICS["a"][1:], "b": [*TOPICS["b"], TOPICS["a"][0]], "c": TOPICS["c"]}
    view = manager.view(INFOS, moved, now=1.0, wall_us=0)
    assert view.brokers["b"].load / view.brokers["a"].load == pytest.approx(11 / 9)


def test_trust_in_a_silent_broker_falls_and_its_load_is_assumed_to_be_the_mean() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 0.0, brokers="c", rate=1.0)
    for now in (0.0, 100.0, 200.0):
        even(manager, now, brokers="ab")
        view = view_of(manager, now)
        mean = view.brokers["a"].load
        silent = view.brokers["c"]
        assert silent.load == pytest.approx((1 - silent.trust) * mean, rel=0.02, abs=0.002)
    assert silent.trust == 0.0
    assert manager.plan(view, now=200.0).reasons[SkipReason.STALE_REPORT] == 1


def test_a_broker_that_never_reported_is_not_flooded() -> None:
    manager = LoadManager(BalanceSettings(confirm_seconds=0))
    even(manager, 0.0, brokers="ab")
    view = manager.view(INFOS, {"a": TOPICS["a"], "b": TOPICS["b"]}, now=0.0, wall_us=0)
    assert manager.plan(view, now=0.0).moves == ()
    placement = manager.place(view, [NewTopic(f"/d/new-{n}") for n in range(20)])
    assert set(placement.assigned.values()) == {"a", "b"}


def test_reading_the_same_report_again_does_not_make_it_fresh() -> None:
    manager = LoadManager(BalanceSettings())
    old = report("a", {}, seconds=0)
    assert observe(manager, old, 0.0)
    assert not observe(manager, old, 170.0)
    assert view_of(manager, 170.0).brokers["a"].trust < 0.1


def test_a_broker_whose_clock_was_set_back_is_still_heard() -> None:
    manager = LoadManager(BalanceSettings())
    observe(manager, report("a", {}, seconds=9_000), 0.0)
    assert observe(manager, report("a", {}, seconds=10), 170.0)
    assert view_of(manager, 170.0).brokers["a"].trust == 1.0


def test_a_new_leader_takes_an_old_report_for_old() -> None:
    manager = LoadManager(BalanceSettings())
    manager.observe(report("a", {}, seconds=1_000), now=5.0, wall_us=int(1_400e6))
    manager.observe(report("b", {}, seconds=1_370), now=5.0, wall_us=int(1_400e6))
    view = manager.view(INFOS, {}, now=5.0, wall_us=int(1_400e6))
    assert (view.brokers["a"].trust, view.brokers["b"].trust) == (0.0, 1.0)


def test_a_machine_on_which_the_same_work_costs_more_counts_as_smaller() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 0.0, brokers="ab")
    observe(manager, report("c", dict.fromkeys(TOPICS["c"], 500.0), cpu=1.0), 0.0)
    for now in (10.0, 20.0):
        view = view_of(manager, now)
        even(manager, now, brokers="ab")
        observe(manager, report("c", dict.fromkeys(TOPICS["c"], 500.0), seconds=now, cpu=1.0), now)
    assert view.brokers["c"].factor == pytest.approx(2, rel=0.01)
    placement = manager.place(view, [NewTopic(f"/d/new-{n}") for n in range(30)])
    assert list(placement.assigned.values()).count("c") < 10


def test_an_ill_broker_looks_fuller_than_it_says() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 0.0, brokers="ab")
    observe(manager, report("c", dict.fromkeys(TOPICS["c"], 500.0), latency_ms=150.0), 0.0)
    view = view_of(manager, 0.0)
    assert view.brokers["c"].load == pytest.approx(3 * view.brokers["a"].load)


def test_an_empty_machine_is_judged_by_its_cores() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 0.0, brokers="ab")
    observe(manager, report("c", {}, cores=2.0), 0.0)
    assert view_of(manager, 0.0).brokers["c"].factor == pytest.approx(2.0)


def test_topics_outside_the_detail_cost_the_average_of_their_like() -> None:
    manager = LoadManager(BalanceSettings(ranking=RankingName.SIMPLE))
    topics = report("a", dict.fromkeys(TOPICS["a"], 500.0)).topics
    short = LoadReport.bounded("a", 0, report("a", {}).resources, topics, detailed=2)
    observe(manager, short, 0.0)
    assert view_of(manager, 0.0).brokers["a"].load == 10.0


def test_a_topic_that_fell_out_of_the_detail_is_no_longer_heavy() -> None:
    manager = LoadManager(BalanceSettings())
    topics = dict.fromkeys(TOPICS["a"], 100.0)
    observe(manager, report("a", {**topics, "/d/a-0": 9_000.0}), 0.0)
    heavy = manager.history.costs["/d/a-0"]
    loads = report("a", topics, seconds=10).topics
    short = LoadReport.bounded(
        "a", int(10e6), report("a", topics).resources, loads[::-1], detailed=2
    )
    observe(manager, short, 10.0)
    assert manager.history.costs["/d/a-0"] < heavy / 10


def test_other_weights_start_a_new_history_and_other_limits_do_not() -> None:
    manager = LoadManager(BalanceSettings())
    even(manager, 0.0)
    manager.change(replace(manager.settings, moves_per_broker=1))
    assert manager.history.costs
    manager.change(replace(manager.settings, ranking=RankingName.SIMPLE))
    assert not manager.history.costs


def test_history_is_bounded() -> None:
    manager = LoadManager(BalanceSettings())
    for now in range(0, 3_000, 10):
        even(manager, float(now), brokers="a")
    assert len(manager.history.brokers["a"].samples) == SAMPLES
    many = {f"/d/gone-{n}": 1.0 for n in range(10_100)}
    observe(manager, report("b", many, seconds=1), 1.0)
    manager.view(INFOS, TOPICS, now=2.0, wall_us=0)
    assert manager.history.costs.keys() == set(TOPICS["a"])


def test_the_forecast_follows_the_usual_hours_and_is_flat_without_them() -> None:
    manager = LoadManager(BalanceSettings(horizon_seconds=HOUR))
    assert swing(manager.history, 0.0) == 1.0
    for quarter in range(24 * 4):
        now = quarter * HOUR / 4
        busy = 10 <= now / HOUR % 24 < 18
        rates = dict.fromkeys(TOPICS["a"], 300.0 if busy else 100.0)
        observe(manager, report("a", rates, seconds=now), now)
    history = manager.history
    assert swing(history, 9.5) == pytest.approx(3, rel=0.1)
    assert swing(history, 17.5) == pytest.approx(1 / 3, rel=0.1)
    assert swing(history, 3.5) == pytest.approx(1, rel=0.1)
    tomorrow = 33.5 * HOUR
    view = manager.view(INFOS, TOPICS, now=tomorrow, wall_us=int(tomorrow * 1e6))
    assert view.brokers["a"].growth == pytest.approx(3, rel=0.1)


def test_topics_without_a_profile_of_their_own_use_that_of_the_cluster() -> None:
    history = LoadHistory(60.0, max_profiles=0)
    manager = LoadManager(BalanceSettings())
    manager.history = history
    for hour in range(24):
        rates = dict.fromkeys(TOPICS["a"], 100.0 * (1 + hour % 2))
        observe(manager, report("a", rates, seconds=hour * HOUR), hour * HOUR)
    assert swing(history, 2.5) == pytest.approx(2, rel=0.1)


def test_a_forecast_is_never_wild() -> None:
    profile = Profile()
    for hour in range(24):
        profile.add(hour, 1000.0 if hour == 5 else 0.001, 1.0)
    assert profile.swing(between(4.5), between(5.5)) == MAX_SWING
    assert profile.swing(between(5.5), between(6.5)) == 1 / MAX_SWING


def test_a_dry_run_is_not_remembered() -> None:
    manager = LoadManager(BalanceSettings(confirm_seconds=0, dry_run=True))
    even(manager, 0.0)
    view = manager.view(INFOS, {"a": [*TOPICS["a"], *TOPICS["b"]], "c": []}, now=0.0, wall_us=0)
    made = manager.plan(view, now=0.0)
    manager.commit(made, now=0.0)
    assert made.moves and manager.plan(view, now=0.0) == made


def test_the_history_stays_small_and_rounds_that_are_alike_are_one_row() -> None:
    history = MoveHistory()
    names = [f"/default/{'long' * 40}-{number}" for number in range(5000)]
    history.moved([(name, "a", "b", 0.001) for name in names], "failover", 7)
    for at_us in range(10, 13):
        history.planned(0, {"balanced": at_us}, at_us)
    history.planned(1, {"balanced": 1}, 20)
    history.planned(0, {"balanced": 1}, 30)
    found = MoveHistory.from_bytes(history.to_bytes())
    [moved] = found.moves
    assert (moved.topics, moved.cost, moved.names) == (5000, 5.0, tuple(names[:MOST_NAMES]))
    rows = [(each.since_us, each.until_us, each.rounds, each.moved) for each in found.rounds]
    assert rows == [(30, 30, 1, 0), (20, 20, 1, 1), (10, 12, 3, 0)]
    assert found.rounds[2].reasons == {"balanced": 12}

    for number in range(1000):
        history.moved([(name, "a", "b", 0.0) for name in names[:50]], "drain", number)
    data = history.to_bytes()
    assert len(data) <= MAX_BYTES and MoveHistory.from_bytes(data).moves[0].at_us == 999
    with pytest.raises(Refused, match="starts a new one"):
        MoveHistory.from_bytes(b"[]")
