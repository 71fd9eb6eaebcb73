"""What can be set about being part of a cluster."""

from __future__ import annotations

from dataclasses import dataclass, field

from broker_containers.load.settings import BalanceSettings


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Intervals and bounds of the cluster's services, in seconds."""

    lease_seconds: int = 8
    """A broker that was not heard of for so long is dead, and others serve its topics."""
    check_seconds: float = 2.0
    """How often the leader's place is looked at, besides watching it."""
    evaluate_seconds: float = 2.0
    """How often the leader looks at everything, besides reacting to changes."""
    report_seconds: float = 5.0
    """How often a broker tells its load."""
    rebalance_seconds: float = 30.0
    """How often the leader considers moving topics for the sake of balance."""
    move_seconds: float = 10.0
    """A topic that was not handed over for so long is taken away."""
    lookup_seconds: float = 10.0
    """How long a lookup waits for a topic to get an owner."""
    leave_seconds: float = 15.0
    """How long a broker that stops waits for others to take its topics."""
    proxy_url: str = ""
    """The one URL by which clients reach all brokers, if they can't reach each by its own."""
    open_at_once: int = 1
    """Topics that a broker opens at the same time before somebody asks for them."""
    moves_at_once: int = 64
    """Planned moves under way at the same time."""
    slow_seconds: float = 3.0
    """A leader whose round takes so long, several times in a row, lets another one lead."""
    abstain_seconds: float = 60.0
    """How long such a broker does not want to lead."""
    balance: BalanceSettings = field(default_factory=BalanceSettings)
