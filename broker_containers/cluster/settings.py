"""Settings of a broker that is part of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_containers.load.settings import BalanceSettings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Intervals, timeouts and limits of the cluster services."""

    lease_seconds: int = 8
    """A broker that does not renew its lease within this time is dead; others take its topics."""
    check_seconds: float = 2.0
    """How often a broker checks who leads, in addition to watching for changes."""
    evaluate_seconds: float = 2.0
    """How often the leader evaluates the cluster, in addition to reacting to changes."""
    report_seconds: float = 5.0
    """How often a broker reports its load."""
    rebalance_seconds: float = 30.0
    """How often the leader considers moving topics to balance load."""
    move_seconds: float = 10.0
    """How long an owner may take to hand over a topic; then the leader reassigns it."""
    lookup_seconds: float = 10.0
    """How long a lookup waits for a topic to get an owner."""
    leave_seconds: float = 15.0
    """How long a stopping broker waits for others to take over its topics."""
    redirect_seconds: float = 15.0
    """After that, how long it tells Danube's clients at most where their topics are now."""
    proxy_url: str = ""
    """The URL through which clients reach all brokers, if they cannot reach each directly."""
    moves_at_once: int = 64
    """Maximum number of concurrent planned moves."""
    slow_seconds: float = 3.0
    """A leader whose rounds take longer than this, several times in a row, resigns."""
    abstain_seconds: float = 60.0
    """How long such a broker does not stand for election."""
    balance: BalanceSettings = field(default_factory=BalanceSettings)
