"""Administrative methods about the cluster: brokers, leader, owners, balance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from broker_containers.arguments import Arguments, Method, text
from broker_containers.cluster.isolation import STANDING
from broker_containers.cluster.leader_tasks import LeaderTasks
from broker_containers.cluster.membership import Membership
from broker_containers.cluster.ownership import Ownership
from broker_containers.cluster.tables import ClusterTables
from broker_containers.load.report import LoadReport
from sulina.errors import NotFound, Refused
from sulina.metadata.keys import members
from sulina.metadata.keys.members import BrokerMode, BrokerState
from sulina.metadata.keys.path import part
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName
from sulina.runtime.seam import Clock


class ClusterMethods:
    """The methods, for ``Admin`` to offer."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        tables: ClusterTables,
        ownership: Ownership,
        leader_tasks: LeaderTasks,
        membership: Membership,
    ) -> None:
        me = membership.broker
        self._membership = membership
        self._store = store
        self._clock = clock
        self._tables = tables
        self._ownership = ownership
        self._leader_tasks = leader_tasks
        self._me = me

    def methods(self) -> dict[str, Method]:
        """All of them, by name."""
        return {
            "cluster.describe": self._cluster_describe,
            STANDING: self._cluster_standing,
            "broker.list": self._broker_list,
            "broker.describe": self._broker_describe,
            "broker.drain": self._broker_drain,
            "broker.activate": self._broker_activate,
            "balance.show": self._balance_show,
            "balance.plan": self._balance_plan,
            "balance.rebalance": self._balance_rebalance,
            "topic.lookup": self._topic_lookup,
            "topic.move": self._topic_move,
            "topic.owners": self._topic_owners,
        }

    async def _cluster_describe(self, _: Arguments) -> Any:
        who, term = self._tables.leader()
        return {
            "leader": who,
            "term": term,
            "answered_by": self._me,
            "revision": self._tables.mirror.revision,
            "topics": len(self._tables.owners.items),
            "unassigned": len(self._tables.wishes.items),
            "moving": sum(1 for owner in self._tables.owners.items.values() if owner.to),
            "brokers": await self._broker_list({}),
        }

    async def _cluster_standing(self, _: Arguments) -> Any:
        """Whether this broker is in touch with the metadata store."""
        return {
            "broker": self._me,
            "in_touch": self._membership.lease is not None,
            "revision": self._tables.mirror.revision,
        }

    # ---- brokers ----

    async def _broker_list(self, _: Arguments) -> Any:
        counts = Counter(owner.broker for owner in self._tables.owners.items.values())
        return [self._broker_row(one, counts) for one in sorted(self._tables.living())]

    def _broker_row(self, broker: str, counts: Mapping[str, int]) -> dict[str, Any]:
        found = self._tables.broker(broker)
        if found is None:
            raise NotFound(f"no broker called {broker!r} lives: `sulina broker list` shows them")
        return {
            "broker": broker,
            "url": found.url,
            "http": found.http,
            "admin": found.admin,
            "version": found.version,
            "started_us": found.started_us,
            "labels": list(found.labels),
            "mode": self._tables.mode(broker).value,
            "leader": broker == self._tables.leader()[0],
            "topics": counts.get(broker, 0),
        }

    async def _broker_describe(self, arguments: Arguments) -> Any:
        broker = text(arguments, "broker")
        counts = {broker: sum(1 for _ in self._tables.topics_of(broker))}
        report = self._tables.loads.items.get(part(broker))
        return {
            **self._broker_row(broker, counts),
            "load": None if report is None else _load(report),
            "owns": sorted(str(topic) for topic, _, _ in self._tables.topics_of(broker))[:1000],
        }

    async def _broker_drain(self, arguments: Arguments) -> Any:
        broker = text(arguments, "broker")
        others = [one for one in self._tables.living() if one != broker]
        if not any(self._tables.mode(one) is BrokerMode.ACTIVE for one in others):
            raise Refused(f"{broker} is the only active broker: nobody could take its topics")
        return await self._set_mode(broker, BrokerMode.DRAINING, arguments)

    async def _broker_activate(self, arguments: Arguments) -> Any:
        return await self._set_mode(text(arguments, "broker"), BrokerMode.ACTIVE, arguments)

    async def _set_mode(self, broker: str, mode: BrokerMode, arguments: Arguments) -> Any:
        self._broker_row(broker, {})  # raises if there is no such broker
        reason = str(arguments.get("reason", ""))[:1000]
        state = BrokerState(mode, reason, self._clock.wall_us())
        await self._tables.mirror.reached(await members.set_state(self._store, broker, state))
        return {"broker": broker, "mode": mode.value}

    # ---- balance; these run on the leader ----

    async def _balance_show(self, _: Arguments) -> Any:
        leader_tasks = self._leader_tasks
        last = None if leader_tasks.plan is None else leader_tasks.plan.to_dict()
        return {"leader": self._me, **leader_tasks.summary(), "last_plan": last}

    async def _balance_plan(self, _: Arguments) -> Any:
        return (await self._leader_tasks.rebalance(dry_run=True)).to_dict()

    async def _balance_rebalance(self, arguments: Arguments) -> Any:
        dry_run = arguments.get("dry_run", False)
        if not isinstance(dry_run, bool):
            raise Refused(f"dry_run must be true or false, not {dry_run!r}")
        return (await self._leader_tasks.rebalance(dry_run=dry_run)).to_dict()

    # ---- topics ----

    async def _topic_lookup(self, arguments: Arguments) -> Any:
        topic = TopicName.parse(text(arguments, "topic"))
        await self._ownership.where(topic)
        owner = self._tables.owner(topic)
        found = None if owner is None else self._tables.broker(owner.broker)
        if owner is None or found is None:
            raise NotFound(f"{topic} lost its owner just now: try again")
        return {
            "topic": str(topic),
            "broker": owner.broker,
            "epoch": owner.epoch,
            "moving_to": owner.to or None,
            "url": found.url,
            "http": found.http,
        }

    async def _topic_owners(self, arguments: Arguments) -> Any:
        """Who serves what, as this broker knows it: of a ``namespace``, of a ``broker``, or all."""
        namespace = arguments.get("namespace")
        return [
            {"topic": str(topic), "broker": owner.broker, "moving_to": owner.to or None}
            for topic, owner, _ in self._tables.topics_of(arguments.get("broker"))
            if namespace in (None, topic.namespace)
        ]

    async def _topic_move(self, arguments: Arguments) -> Any:
        topic = TopicName.parse(text(arguments, "topic"))
        target = arguments.get("broker")
        if target is not None and not isinstance(target, str):
            raise Refused(f"broker must be a broker's id, not {target!r}")
        move = await self._leader_tasks.move(topic, target)
        return {"topic": move.topic, "source": move.source, "target": move.target}


def _load(report: LoadReport) -> dict[str, Any]:
    return {
        "wall_us": report.wall_us,
        "resources": asdict(report.resources),
        "topics": report.topic_count,
        "connections": report.connections,
        "latency_ms": report.latency_ms,
        "records_in": sum(one.records_in for one in report.topics) + report.rest.records_in,
        "bytes_in": sum(one.bytes_in for one in report.topics) + report.rest.bytes_in,
        "records_out": sum(one.records_out for one in report.topics) + report.rest.records_out,
        "bytes_out": sum(one.bytes_out for one in report.topics) + report.rest.bytes_out,
    }
