"""Faults of a cluster with services: of machines, links and metadata.

Operators also act at the wrong moment: they move topics, drain and restart brokers, rebalance, and
ask a leader to step down.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from sulina.errors import SulinaError
from sulina.metadata.keys import members, record
from sulina.metadata.keys.members import BrokerMode, BrokerState
from sulina.metadata.store import Put
from tests.simulation.cluster_brokers import ClusterBroker
from tests.simulation.cluster_world import ClusterWorld
from tests.simulation.faults import Faults
from tests.simulation.metadata import WatchedStore

_LONGEST_STOP = 15.0


class ClusterFaults(Faults):
    """Injects faults until ``heal`` is called."""

    kinds = (
        "kill_storage",
        "restart_storage",
        "pause_storage",
        "slow_disk",
        "kill_broker",
        "kill_leader",
        "kill_all_brokers",
        "pause_broker",
        "restart_broker",
        "cut_pair",
        "cut_off",
        "one_way",
        "bridge",
        "slow_link",
        "break_connections",
        "clock_jump",
        "pause_metadata",
        "restart_metadata",
        "compact",
        "lose_lease",
        "step_down",
        "move_topic",
        "drain",
        "rebalance",
    )

    _cluster: ClusterWorld

    def __init__(self, seed: int, cluster: ClusterWorld) -> None:
        super().__init__(seed, cluster)
        self._keeps_drained = self._chance.random() < 0.3
        """Whether a drained broker stays drained."""

    async def heal(self) -> None:
        self._cluster.start_store()
        await super().heal()
        for broker in self._cluster.brokers:
            waited = 0.0
            while broker.stopping and broker.machine is not None and waited < _LONGEST_STOP:
                await self._clock.sleep(0.1)
                waited += 0.1
            self._revive(broker)

    def _let_settle(self) -> None:
        """Make sure that at least one broker may own topics."""
        if not self._keeps_drained:
            for broker in self._cluster.brokers:
                self._set_mode(broker, BrokerMode.ACTIVE)

    # ---- brokers ----

    def _broker(self) -> ClusterBroker:
        """The leader, an owner, or any broker."""
        chance, cluster = self._chance, self._cluster
        kind = chance.random()
        if kind < 0.3:
            for broker in cluster.brokers:
                if broker.term:
                    return broker
        elif kind < 0.7:
            owner = cluster.checker.assignments[chance.choice(cluster.topics)].owner
            if owner is not None:
                return next(b for b in cluster.brokers if b.name == owner.broker)
        return chance.choice(cluster.brokers)

    def _move_from(self, broker: object) -> None:
        """Only the cluster's services move topics."""

    async def _kill_broker(self) -> None:
        await self._kill(self._broker())

    async def _kill(self, broker: ClusterBroker) -> None:
        if broker.machine is None:
            return
        self._note(f"{broker.name} dies")
        broker.kill()
        await self._for(0.05, 5.0)
        self._revive(broker)

    async def _kill_leader(self) -> None:
        for broker in self._cluster.brokers:
            if broker.term:
                await self._kill(broker)
                return

    async def _kill_all_brokers(self) -> None:
        self._note("all brokers die")
        for broker in self._cluster.brokers:
            broker.kill()
        for broker in self._chance.sample(self._cluster.brokers, len(self._cluster.brokers)):
            await self._for(0.0, 1.5)
            self._revive(broker)

    async def _restart_broker(self) -> None:
        """A clean restart: the broker tries to hand over its topics."""
        broker = self._broker()
        if broker.node is not None and not broker.stopping:
            self._note(f"{broker.name} is asked to stop")
            broker.stop()
            machine, waited = broker.machine, 0.0
            while broker.machine is machine and waited < _LONGEST_STOP:
                await self._clock.sleep(0.1)
                waited += 0.1
            await self._for(0.0, 3.0)
            self._revive(broker)

    async def _pause_broker(self) -> None:
        """Often longer than its lease."""
        broker = self._broker()
        machine = broker.machine
        if machine is not None:
            self._note(f"{broker.name} is paused")
            machine.pause()
            await self._for(0.1, 2.5 * self._cluster.shape.lease_seconds)
            self._note(f"{broker.name} continues")
            machine.resume()

    # ---- the network ----

    async def _cut_pair(self) -> None:
        """Cut a link, in one direction or both."""
        one, other = self._chance.sample(self._names(), 2)
        if self._chance.random() < 0.6:
            one = self._broker().name
            other = self._chance.choice(["metadata", "metadata", "clients", self._storage().name])
        pairs = [(one, other), (other, one)]
        if self._chance.random() < 0.4:
            pairs = [self._chance.choice(pairs)]
        blocked = self._cluster.network.blocked
        fresh = [pair for pair in pairs if pair not in blocked]
        self._note(f"cut: {fresh}")
        blocked.update(fresh)
        await self._for(0.2, 2.5 * self._cluster.shape.lease_seconds)
        blocked.difference_update(fresh)

    # ---- the metadata ----

    async def _restart_metadata(self) -> None:
        self._note("the metadata store dies")
        self._cluster.kill_store()
        await self._for(0.05, 3.0)
        self._note("the metadata store starts")
        self._cluster.start_store()

    async def _compact(self) -> None:
        store = self._cluster.store
        self._note(f"the metadata is compacted at {store.revision}")
        await store.compact(store.revision)

    async def _lose_lease(self) -> None:
        """The store loses leases although their holders renew them, often the leader's first."""
        first = self._leader() if self._chance.random() < 0.7 else None
        count = self._chance.choice((1, 2, 2, len(self._cluster.brokers)))
        others = self._chance.sample(self._cluster.brokers, count)
        for broker in others if first is None else [first, *others]:
            lease = None if broker.node is None else broker.node.membership.lease
            if lease is not None and lease.id not in self._cluster.checker.lost_leases:
                self._revoke(broker, lease.id)
                await self._for(0.0, 0.05)

    def _revoke(self, broker: ClusterBroker, lease: int) -> None:
        self._note(f"lease {lease} of {broker.name} is revoked")
        self._cluster.checker.lost_leases.add(lease)
        self._at_store(lambda store: store.revoke_lease(lease))

    def _at_store(self, work: Callable[[WatchedStore], Coroutine[Any, Any, Any]]) -> None:
        """Run ``work`` on the store's machine, as an operator would."""
        if self._cluster.metadata.machine is not None and self._cluster.metadata_machine.alive:
            store = self._cluster.store
            self._cluster.metadata_machine.spawn(_quietly(lambda: work(store)), "operator")

    # ---- operators ----

    def _ask(self, broker: ClusterBroker, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        assert broker.machine is not None
        broker.machine.spawn(_quietly(work), "operator")

    def _leader(self) -> ClusterBroker | None:
        """The broker that considers itself the leader; sometimes another one."""
        if self._chance.random() < 0.1:
            some = self._chance.choice(self._cluster.brokers)
            return some if some.node is not None else None
        return next((broker for broker in self._cluster.brokers if broker.term), None)

    async def _step_down(self) -> None:
        leader = self._leader()
        if leader is not None and leader.node is not None:
            self._note(f"{leader.name} is asked to step down")
            election = leader.node.election
            self._ask(leader, lambda: election.step_down("requested by an operator"))

    async def _move_topic(self) -> None:
        leader = self._leader()
        if leader is not None and leader.node is not None:
            topic = self._chance.choice(self._cluster.topics)
            target = self._chance.choice([None, *(b.name for b in self._cluster.brokers)])
            self._note(f"{leader.name} is asked to move {topic.local} to {target}")
            leader_tasks = leader.node.leader_tasks
            self._ask(leader, lambda: leader_tasks.move(topic, target))

    async def _rebalance(self) -> None:
        leader = self._leader()
        if leader is not None and leader.node is not None:
            self._note(f"{leader.name} is asked to rebalance")
            leader_tasks = leader.node.leader_tasks
            self._ask(leader, lambda: leader_tasks.rebalance(dry_run=False))

    async def _drain(self) -> None:
        broker = self._cluster.brokers[self._chance.randrange(1, len(self._cluster.brokers))]
        self._note(f"{broker.name} is drained")
        self._set_mode(broker, BrokerMode.DRAINING)
        await self._for(0.5, 6.0)
        if not self._keeps_drained:
            self._note(f"{broker.name} is active again")
            self._set_mode(broker, BrokerMode.ACTIVE)

    def _set_mode(self, broker: ClusterBroker, mode: BrokerMode) -> None:
        value = record.encode(BrokerState(mode))
        put = Put(members.state_key(broker.name), value)
        self._at_store(lambda store: store.txn_by("operator", (), (put,), ()))


async def _quietly(work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
    """Ignore errors: an operator would see them."""
    with suppress(SulinaError):
        await work()
