"""Settings of a broker that is part of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_containers import settable
from broker_containers.load.settings import BalanceSettings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Intervals, timeouts and limits of the cluster services."""

    # fmt: off
    lease_seconds: int = 8
    """A broker that does not renew its lease within this time is dead; others take its topics."""
    check_seconds: float = settable.seconds(2.0, 0.1, 60, settable.ROUND,
        "How often a broker checks who leads, in addition to watching for changes.")
    evaluate_seconds: float = settable.seconds(2.0, 0.1, 600, settable.ALL,
        "How often the leader evaluates the cluster, in addition to reacting to changes.")
    report_seconds: float = settable.seconds(5.0, 0.5, 600, settable.ROUND,
        "How often a broker reports its load.")
    rebalance_seconds: float = settable.seconds(30.0, 1, settable.DAY, settable.ALL,
        "How often the leader considers moving topics.")
    move_seconds: float = settable.seconds(10.0, 0.5, 600, settable.ALL,
        "How long an owner may take to hand over a topic; then the leader reassigns it.")
    lookup_seconds: float = settable.seconds(10.0, 0.1, 120, settable.NOW,
        "How long a lookup waits for a topic to get an owner.")
    leave_seconds: float = settable.seconds(15.0, 0, 600, settable.NOW,
        "How long a stopping broker waits for others to take over its topics.")
    redirect_seconds: float = settable.seconds(15.0, 0, 600, settable.NOW,
        "After that, how long it tells Danube's clients at most where their topics are now.")
    proxy_url: str = ""
    """The URL through which clients reach all brokers, if they cannot reach each directly."""
    shared_name: str = ""
    """The name that leads to all brokers inside their network: clients that use it reach each
    broker directly, in spite of ``proxy_url``, and certificates of brokers are for it."""
    moves_at_once: int = settable.count(64, 1, 10000, settable.ALL,
        "Maximum number of concurrent planned moves.")
    slow_seconds: float = settable.seconds(3.0, 0.1, 600, settable.NOW,
        "A leader whose rounds repeatedly take longer resigns.")
    abstain_seconds: float = settable.seconds(60.0, 0, settable.DAY, settable.NOW,
        "How long it then does not stand for election.")
    balance: BalanceSettings = field(default_factory=BalanceSettings)
    # fmt: on
