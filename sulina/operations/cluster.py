"""Operations on the cluster: brokers, balance and settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from sulina.metadata.keys.members import BrokerMode
from sulina.model import Action
from sulina.operations.declaration import (
    CLUSTER,
    DELETE,
    GET,
    POST,
    PUT,
    OperationGroup,
    Right,
    RunsOn,
    operation,
)
from sulina.operations.json_forms import Between
from sulina.operations.json_types import OMITTED, Count, Name

_BROKERS = Right(Action.BROKERS)
_LEADER = RunsOn.LEADER
_Reason = Annotated[str, "Stored with the change."]
_OneBroker = Annotated[str, "Only this broker's setting; empty is that of all brokers."]
_By = Annotated[str, "Who changes it, for the history."]


@dataclass(frozen=True, slots=True)
class BrokerStats:
    """A broker in a few numbers."""

    broker: Name
    topics: Count
    producers: Count
    consumers: Count
    cache_bytes: Count
    records_in: Count
    bytes_in: Count


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker in a list. Doors that it does not have are empty."""

    broker: Name
    url: Annotated[str, "For clients of the binary protocol."]
    http: Annotated[str, "The HTTP door."]
    admin: Annotated[str, "Danube's admin services."]
    grpc: Annotated[str, "Danube's clients."]
    version: str
    started_us: Count
    labels: tuple[str, ...]
    mode: BrokerMode
    leader: bool
    topics: Count


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """How much of a resource is used; a limit of 0 is unknown."""

    used: float
    limit: float


@dataclass(frozen=True, slots=True)
class ReportedLoad:
    """The load that a broker reported last."""

    wall_us: Count
    resources: Annotated[Mapping[str, ResourceUsage], "By name: cpu, memory and others."]
    topics: Count
    connections: Count
    latency_ms: float
    records_in: float
    bytes_in: float
    records_out: float
    bytes_out: float


@dataclass(frozen=True, slots=True)
class BrokerDetails(BrokerRow):
    """A broker with its load and its topics."""

    load: Annotated[ReportedLoad | None, "null if it has not reported any."]
    owns: Annotated[tuple[str, ...], "Its topics, at most 1,000."]


@dataclass(frozen=True, slots=True)
class BrokerModeSet:
    """A broker's new mode."""

    broker: Name
    mode: BrokerMode


class BrokerOperations(OperationGroup, name="broker"):
    """Operations on brokers."""

    @operation(GET("/stats"), right=CLUSTER)
    async def stats(self) -> BrokerStats:
        """Show the broker that answers in a few numbers."""

    @operation(GET("/brokers"), right=_BROKERS)
    async def list(self) -> tuple[BrokerRow, ...]:
        """List the brokers."""

    @operation(GET("/brokers/{broker}"), right=CLUSTER)
    async def describe(self, broker: Name) -> BrokerDetails:
        """Show a broker and its load."""

    @operation(POST("/brokers/{broker}/drain"), right=_BROKERS, needs_cluster=True)
    async def drain(self, broker: Name, *, reason: _Reason = "") -> BrokerModeSet:
        """Start to move all topics of a broker elsewhere, and assign it no new ones."""

    @operation(POST("/brokers/{broker}/activate"), right=_BROKERS, needs_cluster=True)
    async def activate(self, broker: Name, *, reason: _Reason = "") -> BrokerModeSet:
        """Let a drained broker take topics again."""


@dataclass(frozen=True, slots=True)
class ClusterDetails:
    """The cluster as the broker that answers sees it."""

    leader: str | None
    term: Count
    answered_by: Name
    revision: Annotated[Count, "Of the metadata that this broker has seen."]
    topics: Count
    unassigned: Count
    moving: Count
    brokers: tuple[BrokerRow, ...]


@dataclass(frozen=True, slots=True)
class MetadataContact:
    """Whether a broker reaches the metadata store."""

    broker: Name
    in_touch: bool
    revision: Annotated[Count, "Of the metadata that this broker has seen."]


class ClusterOperations(OperationGroup, name="cluster"):
    """Operations on the cluster as a whole."""

    @operation(GET("/cluster"), right=CLUSTER)
    async def describe(self) -> ClusterDetails:
        """Show the cluster: its leader and its brokers."""

    @operation(GET("/cluster/standing"), right=CLUSTER)
    async def standing(self) -> MetadataContact:
        """Show whether the broker that answers reaches the metadata store."""


@dataclass(frozen=True, slots=True)
class BalanceSummary:
    """How evenly the load is spread; loads are in the unit of the ranking."""

    mean: float
    highest: float
    lowest: float
    cv: Annotated[float, "Standard deviation divided by mean."]
    bound: Annotated[float, "The least that the highest load can be."]
    max_over_mean: float
    max_over_bound: Annotated[float | None, OMITTED] = None


@dataclass(frozen=True, slots=True)
class RankedBroker:
    """A broker in the order of load."""

    broker: Name
    load: float
    topics: Count
    state: BrokerMode
    trust: Annotated[float, "1 for a fresh load report, 0 for none."]


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One topic from one broker to another."""

    topic: Name
    source: Name
    target: Name
    cost: float
    why: Name


@dataclass(frozen=True, slots=True)
class BalancePlan:
    """What to move, what that leads to, and why other topics are not moved."""

    moves: tuple[PlannedMove, ...]
    reasons: Mapping[str, Count]
    before: BalanceSummary
    after: BalanceSummary
    moved_share: Annotated[float, "The part of the cluster's load that the moves carry."]
    outside: Annotated[tuple[Name, ...], "Brokers whose load is out of bounds."]
    dry_run: bool


@dataclass(frozen=True, slots=True)
class BalanceDetails:
    """How the load is spread, as the leader sees it."""

    leader: Name
    ranking: Name
    high: float
    low: float
    balance: BalanceSummary
    brokers: tuple[RankedBroker, ...]
    reasons: Mapping[str, Count]
    moves: Mapping[str, Count]
    last_plan: BalancePlan | None


@dataclass(frozen=True, slots=True)
class PastMoves:
    """Topics that were moved together, from one broker to another."""

    at_us: Count
    why: Annotated[str, "overload, fill, affinity, drain, failover, manual, forced or cancelled."]
    source: Name
    target: Name
    topics: Count
    names: Annotated[tuple[str, ...], "The first of the topics."]
    cost: Annotated[float, "Their load, as far as it was known."]


@dataclass(frozen=True, slots=True)
class PastRounds:
    """Rounds of rebalancing, one after the other, with the same reasons not to move topics."""

    since_us: Count
    until_us: Count
    rounds: Count
    moved: Annotated[Count, "Topics that were moved."]
    reasons: Annotated[Mapping[str, Count], "Why others were not, as counted in the last round."]


@dataclass(frozen=True, slots=True)
class BalanceHistory:
    """What leaders moved, and what they left where it was: the newest first."""

    moves: tuple[PastMoves, ...]
    rounds: tuple[PastRounds, ...]


class BalanceOperations(OperationGroup, name="balance"):
    """Operations on the balance of load; the leader runs them."""

    @operation(GET("/balance"), right=CLUSTER, runs_on=_LEADER, needs_cluster=True)
    async def show(self) -> BalanceDetails:
        """Show how evenly the load is spread."""

    @operation(GET("/balance/history"), right=CLUSTER, runs_on=_LEADER, needs_cluster=True)
    async def history(
        self, *, limit: Annotated[int, Between(1, 300), "The newest of each."] = 100
    ) -> BalanceHistory:
        """Show what was moved when and why, and why other topics were not."""

    @operation(GET("/balance/plan"), right=CLUSTER, runs_on=_LEADER, needs_cluster=True)
    async def plan(self) -> BalancePlan:
        """Show what a rebalance would move now; nothing is moved."""

    @operation(POST("/balance/rebalance"), right=CLUSTER, runs_on=_LEADER, needs_cluster=True)
    async def rebalance(self, *, dry_run: bool = False) -> BalancePlan:
        """Rebalance now."""


@dataclass(frozen=True, slots=True)
class SettingRow:
    """A setting that can be changed while brokers run."""

    name: Name
    value: Annotated[Any, "In force on the broker that answers."]
    text: Annotated[str, "The same with its unit."]
    source: Annotated[str, "broker, cluster, start or default."]
    default: Any
    started_with: Any
    cluster: Annotated[Any, "Set for all brokers; null if it is not set."]
    brokers: Annotated[Mapping[str, Any], "Set for single brokers."]
    unit: str
    kind: str
    allowed: str
    per_broker: Annotated[bool, "Whether it can be set for a single broker."]
    effect: str
    help: str


@dataclass(frozen=True, slots=True)
class FixedSetting:
    """A setting that needs a restart, and why."""

    name: Name
    value: Any
    reason: str


@dataclass(frozen=True, slots=True)
class SettingList:
    """All settings, as they are on the broker that answers."""

    broker: Name
    settings: tuple[SettingRow, ...]
    fixed: tuple[FixedSetting, ...]
    ignored: Annotated[Mapping[str, str], "Stored values without effect, and why."]


@dataclass(frozen=True, slots=True)
class SettingChange:
    """What a change did."""

    name: Name
    broker: str
    old: str | None
    new: str | None
    changed: bool


@dataclass(frozen=True, slots=True)
class PastChange:
    """A change in the history of settings."""

    number: Count
    name: Name
    broker: str
    old: str | None
    new: str | None
    by: str
    at_us: Count


class ConfigOperations(OperationGroup, name="config"):
    """Operations on settings; any broker answers them for the whole cluster."""

    @operation(GET("/config"), right=CLUSTER)
    async def list(self) -> SettingList:
        """List the settings in force."""

    @operation(GET("/config/history"), right=CLUSTER)
    async def history(
        self, *, limit: Annotated[int, Between(), "List at most this many changes."] = 100
    ) -> tuple[PastChange, ...]:
        """List who changed which setting and when, the newest change first."""

    @operation(PUT("/config/{name}"), right=CLUSTER)
    async def set(
        self, name: Name, value: Any, *, broker: _OneBroker = "", by: _By = ""
    ) -> SettingChange:
        """Change a setting of all brokers or of one, without a restart."""

    @operation(DELETE("/config/{name}", status=200), right=CLUSTER)
    async def unset(self, name: Name, *, broker: _OneBroker = "", by: _By = "") -> SettingChange:
        """Reset a setting to its default."""
