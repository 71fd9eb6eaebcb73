"""Handlers of the operations on a cluster: brokers, leader, owners, balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from itertools import islice

from broker_containers.cluster.leader_tasks import LeaderTasks
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.tables import ClusterTables
from broker_containers.load.report import LoadReport
from broker_containers.operations.running import handles
from broker_containers.security.access import ACTING
from sulina.errors import NotFound
from sulina.metadata.keys import members
from sulina.metadata.keys.members import BrokerMode, BrokerState
from sulina.metadata.keys.path import part
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.operations.cluster import (
    BalanceDetails,
    BalanceHistory,
    BalanceOperations,
    BalancePlan,
    BrokerDetails,
    BrokerModeSet,
    BrokerOperations,
    BrokerRow,
    ClusterDetails,
    ClusterOperations,
    MetadataContact,
    ReportedLoad,
    ResourceUsage,
)
from sulina.operations.topics import TopicLocation, TopicMove, TopicOperations, TopicOwner
from sulina.runtime.seam import Clock

_LONGEST_REASON = 1000
_MOST_OWNED = 1000


class ClusterHandlers:
    """The cluster as this broker sees it; the operations on balance run on the leader."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        tables: ClusterTables,
        ownership: Ownership,
        leader_tasks: LeaderTasks,
        membership: Membership,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tables = tables
        self._ownership = ownership
        self._leader_tasks = leader_tasks
        self._membership = membership
        self._me = membership.broker

    @handles(ClusterOperations.describe)
    async def describe_cluster(self) -> ClusterDetails:
        leader, term = self._tables.leader()
        return ClusterDetails(
            leader=leader,
            term=term,
            answered_by=self._me,
            revision=self._tables.prefix_cache.revision,
            topics=len(self._tables.owners.items),
            unassigned=len(self._tables.unassigned.items),
            moving=sum(1 for owner in self._tables.owners.items.values() if owner.to),
            brokers=await self.list_brokers(),
        )

    @handles(ClusterOperations.standing)
    async def standing(self) -> MetadataContact:
        in_touch = await self._membership.in_touch()
        return MetadataContact(self._me, in_touch, self._tables.prefix_cache.revision)

    # ---- brokers ----

    @handles(BrokerOperations.list)
    async def list_brokers(self) -> tuple[BrokerRow, ...]:
        counts = Counter(owner.broker for owner in self._tables.owners.items.values())
        return tuple(self._row(one, counts) for one in sorted(self._tables.living()))

    def _row(self, broker: str, counts: Mapping[str, int]) -> BrokerRow:
        found = self._tables.broker(broker)
        if found is None:
            raise NotFound(f"no broker {broker!r} is running: `sulina broker list` shows them")
        return BrokerRow(
            broker=broker,
            url=found.url,
            http=found.http,
            admin=found.admin,
            grpc=found.grpc,
            version=found.version,
            started_us=found.started_us,
            labels=tuple(found.labels),
            mode=self._tables.mode(broker),
            leader=broker == self._tables.leader()[0],
            topics=counts.get(broker, 0),
        )

    @handles(BrokerOperations.describe)
    async def describe_broker(self, broker: str) -> BrokerDetails:
        owned = sorted(str(topic) for topic, _, _ in self._tables.topics_of(broker))
        report = self._tables.loads.items.get(part(broker))
        return BrokerDetails(
            **asdict(self._row(broker, {broker: len(owned)})),
            load=None if report is None else _load(report),
            owns=tuple(islice(filter(ACTING.get().sees, owned), _MOST_OWNED)),
        )

    @handles(BrokerOperations.drain)
    async def drain(self, broker: str, *, reason: str = "") -> BrokerModeSet:
        return await self._set_mode(broker, BrokerMode.DRAINING, reason)

    @handles(BrokerOperations.activate)
    async def activate(self, broker: str, *, reason: str = "") -> BrokerModeSet:
        return await self._set_mode(broker, BrokerMode.ACTIVE, reason)

    async def _set_mode(self, broker: str, mode: BrokerMode, reason: str) -> BrokerModeSet:
        self._row(broker, {})  # raises if there is no such broker
        state = BrokerState(mode, reason[:_LONGEST_REASON], self._clock.wall_us())
        others = [one for one in self._tables.living() if one != broker]
        revision = await members.set_state(self._store, broker, state, others)
        await self._tables.prefix_cache.reached(revision)
        return BrokerModeSet(broker, mode)

    # ---- balance ----

    @handles(BalanceOperations.show)
    async def show_balance(self) -> BalanceDetails:
        last = self._leader_tasks.plan
        return BalanceOperations.show.result_of(
            {
                "leader": self._me,
                **self._leader_tasks.summary(),
                "last_plan": None if last is None else last.to_dict(),
            }
        )

    @handles(BalanceOperations.history)
    async def balance_history(self, *, limit: int = 100) -> BalanceHistory:
        history = self._leader_tasks.history
        return BalanceHistory(
            tuple(islice(history.moves, limit)), tuple(islice(history.rounds, limit))
        )

    @handles(BalanceOperations.plan)
    async def plan(self) -> BalancePlan:
        return await self.rebalance(dry_run=True)

    @handles(BalanceOperations.rebalance)
    async def rebalance(self, *, dry_run: bool = False) -> BalancePlan:
        made = await self._leader_tasks.rebalance(dry_run=dry_run)
        return BalanceOperations.rebalance.result_of(made.to_dict())

    # ---- topics ----

    @handles(TopicOperations.lookup)
    async def lookup(self, topic: str) -> TopicLocation:
        name = TopicName.parse(topic)
        await self._ownership.where(name)
        owner = self._tables.owner(name)
        found = None if owner is None else self._tables.broker(owner.broker)
        if owner is None or found is None:
            raise NotFound(f"{name} has just lost its owner: try again")
        return TopicLocation(
            str(name), owner.broker, owner.epoch, owner.to or None, found.url, found.http
        )

    @handles(TopicOperations.owners)
    async def owners(
        self, *, namespace: str | None = None, broker: str | None = None
    ) -> tuple[TopicOwner, ...]:
        return tuple(
            TopicOwner(str(topic), owner.broker, owner.to or None)
            for topic, owner, _ in self._tables.topics_of(broker)
            if namespace in (None, topic.namespace)
        )

    @handles(TopicOperations.move)
    async def move(self, topic: str, *, broker: str | None = None) -> TopicMove:
        move = await self._leader_tasks.move(TopicName.parse(topic), broker)
        return TopicMove(move.topic, move.source, move.target)


def _load(report: LoadReport) -> ReportedLoad:
    parts = [*report.topics, report.rest]
    return ReportedLoad(
        wall_us=report.wall_us,
        resources={
            name: ResourceUsage(**usage) for name, usage in asdict(report.resources).items()
        },
        topics=report.topic_count,
        connections=report.connections,
        latency_ms=report.latency_ms,
        records_in=sum(one.records_in for one in parts),
        bytes_in=sum(one.bytes_in for one in parts),
        records_out=sum(one.records_out for one in parts),
        bytes_out=sum(one.bytes_out for one in parts),
    )
