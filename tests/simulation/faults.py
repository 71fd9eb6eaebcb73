"""Faults, each with a rate drawn from the seed; some seeds have none.

In half of the seeds one storage node, the victim, may lose data (a wiped disk, a lost tail, flipped
bits); then only the victim loses power or has a full disk. In the others any node may lose power at
any time, also all of them at once: what they synced is kept. So every acknowledged entry has a copy
left, and the protocol must find it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from random import Random

from sulina.names import TopicName
from tests.simulation.brokers import SimBroker
from tests.simulation.clock import SimClock
from tests.simulation.cluster import SimCluster
from tests.simulation.storage import SimStorage

Fault = Callable[[], Awaitable[None]]


class Faults:
    """Injects faults until ``heal`` is called."""

    kinds: tuple[str, ...] = (
        "kill_storage",
        "restart_storage",
        "pause_storage",
        "slow_disk",
        "full_disk",
        "failing_disk",
        "kill_broker",
        "pause_broker",
        "move_owner",
        "rival",
        "contest",
        "cut_off",
        "one_way",
        "bridge",
        "slow_link",
        "break_connections",
        "break_storage",
        "clock_jump",
        "pause_metadata",
        "disaster",
    )
    """Faults that any seed may have."""

    def __init__(self, seed: int, cluster: SimCluster) -> None:
        self._chance = chance = Random(f"{seed}/faults")
        self._cluster = cluster
        self._clock = SimClock(cluster.loop)
        self._tasks: list[asyncio.Task[None]] = []
        self._victim: SimStorage | None = None
        if chance.random() < 0.5:
            self._victim = chance.choice(cluster.storages)
        self._kinds = self._drawn()

    def _drawn(self) -> dict[str, float]:
        """The faults of this seed, with their rates per second."""
        chance = self._chance
        if chance.random() < 0.08:
            return {}
        kinds = [*self.kinds]
        if self._victim is not None:
            kinds += ["wipe", "lose_tail", "flip"]
        else:
            kinds.append("kill_all_storages")
        intensity = chance.choice((0.5, 1.0, 2.0))
        likely = chance.choice((0.25, 0.5, 0.8))
        found = {
            kind: intensity * chance.choice((0.1, 0.3, 0.8))
            for kind in kinds
            if chance.random() < likely
        }
        if "move_owner" in kinds:
            found.setdefault("move_owner", 0.3)
        return found

    def begin(self) -> None:
        """Start to inject faults."""
        cluster = self._cluster
        if self._kinds:
            cluster.confusion = self._chance.choice((0.0, 0.02, 0.2))
        rates = ", ".join(f"{kind} {rate:g}" for kind, rate in self._kinds.items())
        victim = self._victim.name if self._victim else "none"
        cluster.trace.note(f"faults: {rates or 'none'}; victim {victim}")
        for kind, rate in self._kinds.items():
            fault: Fault = getattr(self, f"_{kind}")
            self._tasks.append(cluster.loop.create_task(self._repeat(fault, rate)))

    async def _repeat(self, fault: Fault, rate: float) -> None:
        while True:
            await self._clock.sleep(self._chance.expovariate(rate))
            await fault()

    async def _for(self, low: float, high: float) -> None:
        await self._clock.sleep(self._chance.uniform(low, high))

    def _note(self, what: str) -> None:
        self._cluster.trace.note(f"FAULT {what}")

    async def heal(self) -> None:
        """Stop all faults, and start everything that is down."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        cluster = self._cluster
        cluster.confusion = 0.0
        cluster.network.blocked.clear()
        cluster.network.slow.clear()
        cluster.network.far.clear()
        cluster.metadata_machine.resume()
        for storage in cluster.storages:
            storage.sync_seconds = 0.001
            storage.disk.capacity = None
            if storage.machine is not None:
                storage.machine.resume()
            if storage.stuck:
                storage.stuck = False
                storage.kill()
        for broker in cluster.brokers:
            broker.clock.jump(0)
            if broker.machine is not None:
                broker.machine.resume()
        await self._clock.sleep(0.5)  # let stopping nodes finish
        parties: list[SimStorage | SimBroker] = [*cluster.storages, *cluster.brokers]
        for party in parties:
            if party.machine is None:
                party.start()
        self._let_settle()
        for consumer in cluster.consumers:
            consumer.careless = 0.0

    def _let_settle(self) -> None:
        """From now on each topic has one owner."""
        for topic in self._cluster.topics:
            self._cluster.owners[topic] = self._chance.choice(self._cluster.brokers)

    # ---- storage nodes ----

    def _storage(self) -> SimStorage:
        return self._chance.choice(self._cluster.storages)

    async def _kill_storage(self) -> None:
        storage = self._victim or self._storage()
        if storage.machine is None:
            return
        power = self._chance.random() < 0.7
        self._note(f"{storage.name} {'loses power' if power else 'dies'}")
        storage.kill(power=power)
        await self._for(0.05, 3.0)
        self._start(storage)

    async def _kill_all_storages(self) -> None:
        self._note("all storage nodes lose power")
        for storage in self._cluster.storages:
            storage.kill()
        await self._for(0.05, 1.0)
        for storage in self._cluster.storages:
            await self._for(0.0, 0.3)
            self._start(storage)

    def _start(self, storage: SimStorage) -> None:
        if storage.machine is None:
            self._note(f"{storage.name} starts")
            storage.start()

    async def _restart_storage(self) -> None:
        storage = self._storage()
        if storage.up:
            self._note(f"{storage.name} is restarted")
            storage.stop()
            await self._for(0.5, 2.0)
            self._start(storage)

    async def _pause_storage(self) -> None:
        storage = self._storage()
        machine = storage.machine
        if machine is not None:
            self._note(f"{storage.name} is paused")
            machine.pause()
            await self._for(0.05, 2.5)
            machine.resume()

    async def _slow_disk(self) -> None:
        storage = self._storage()
        self._note(f"the disk of {storage.name} is slow")
        storage.sync_seconds = self._chance.choice((0.02, 0.1, 0.4))
        await self._for(0.3, 3.0)
        storage.sync_seconds = 0.001

    async def _full_disk(self) -> None:
        # Without space to record it, a clean stop counts as unclean.
        storage = self._victim or self._storage()
        self._note(f"the disk of {storage.name} is full")
        storage.disk.capacity = 0
        await self._for(0.1, 2.0)
        storage.disk.capacity = None

    async def _failing_disk(self) -> None:
        storage = self._victim or self._storage()
        self._note(f"the disk of {storage.name} fails")
        storage.stuck = True
        await self._for(0.1, 1.5)
        storage.stuck = False
        storage.kill()
        self._start(storage)

    async def _wipe(self) -> None:
        assert self._victim is not None
        self._note(f"{self._victim.name} loses its disk")
        self._victim.wipe()
        await self._for(0.0, 1.5)
        self._start(self._victim)

    async def _lose_tail(self) -> None:
        assert self._victim is not None
        self._note(f"{self._victim.name} loses power and the tail of its journal")
        self._victim.lose_tail(self._chance.choice((0.1, 0.5, 1.0)))
        await self._for(0.0, 1.5)
        self._start(self._victim)

    async def _flip(self) -> None:
        assert self._victim is not None
        self._note(f"bits flip on {self._victim.name}")
        for _ in range(self._chance.choice((1, 3, 10))):
            self._victim.flip()

    # ---- brokers ----

    def _broker(self) -> SimBroker:
        """A broker, preferably an owner."""
        if self._chance.random() < 0.7:
            return self._cluster.owners[self._chance.choice(self._cluster.topics)]
        return self._chance.choice(self._cluster.brokers)

    def _move_from(self, broker: SimBroker) -> None:
        for topic, owner in self._cluster.owners.items():
            if owner is broker:
                others = [b for b in self._cluster.brokers if b is not broker]
                self._cluster.owners[topic] = self._chance.choice(others)

    def _revive(self, broker: SimBroker) -> None:
        if broker.machine is None:
            broker.start()

    async def _kill_broker(self) -> None:
        broker = self._broker()
        if broker.machine is None:
            return
        self._note(f"{broker.name} dies")
        broker.kill()
        await self._for(0.0, 0.5)
        self._move_from(broker)
        await self._for(0.1, 2.0)
        self._revive(broker)

    async def _disaster(self) -> None:
        """An owner dies together with a storage node, which comes back first."""
        broker, storage = self._broker(), self._victim or self._storage()
        self._note(f"{broker.name} and {storage.name} die together")
        broker.kill()
        if self._victim is None:
            storage.kill()
        elif self._chance.random() < 0.5:
            storage.lose_tail(self._chance.choice((0.1, 0.5, 1.0)))
        else:
            storage.wipe()
        await self._for(0.0, 0.05)
        self._start(storage)
        self._move_from(broker)
        await self._for(0.1, 1.0)
        self._revive(broker)

    async def _pause_broker(self) -> None:
        broker = self._broker()
        machine = broker.machine
        if machine is not None:
            self._note(f"{broker.name} is paused")
            machine.pause()
            await self._for(0.0, 0.5)
            if self._chance.random() < 0.8:
                self._move_from(broker)
            await self._for(0.05, 3.0)
            machine.resume()

    async def _move_owner(self) -> None:
        topic = self._chance.choice(self._cluster.topics)
        owner = self._chance.choice(self._cluster.brokers)
        self._note(f"{topic.local} moves to {owner.name}")
        self._cluster.owners[topic] = owner

    async def _rival(self) -> None:
        """A broker takes over a topic without its clients knowing."""
        topic = self._chance.choice(self._cluster.topics)
        owner = self._cluster.owners[topic]
        broker = self._chance.choice([b for b in self._cluster.brokers if b is not owner])
        self._take_over(broker, topic)

    def _take_over(self, broker: SimBroker, topic: TopicName) -> None:
        if broker.machine is not None and broker.broker is not None:
            self._note(f"{broker.name} takes over {topic.local}")
            broker.machine.spawn(broker.endpoint.service.open(topic), "rival")

    async def _contest(self) -> None:
        """A rival takes over while some nodes are far from the owner, others from the rival."""
        topic = self._chance.choice(self._cluster.topics)
        owner = self._cluster.owners[topic]
        rival = self._chance.choice([b for b in self._cluster.brokers if b is not owner])
        pairs = [
            pair
            for storage in self._cluster.storages
            for broker in (owner, rival)
            for pair in ((broker.name, storage.name), (storage.name, broker.name))
        ]
        far = self._cluster.network.far
        for pair in pairs:
            far[pair] = self._chance.choice((0.3, 1.0, 10.0, 50.0))
        await self._for(0.0, 0.1)
        self._take_over(rival, topic)
        await self._for(0.1, 0.8)
        for pair in pairs:
            far.pop(pair, None)

    async def _clock_jump(self) -> None:
        broker = self._broker()
        broker.clock.jump(self._chance.randrange(-3_600_000_000, 3_600_000_000))

    # ---- the network ----

    def _names(self) -> list[str]:
        cluster = self._cluster
        return [
            *(storage.name for storage in cluster.storages),
            *(broker.name for broker in cluster.brokers),
            "metadata",
            "clients",
        ]

    async def _block(self, what: str, pairs: list[tuple[str, str]]) -> None:
        blocked = self._cluster.network.blocked
        fresh = [pair for pair in pairs if pair not in blocked]
        self._note(what)
        blocked.update(fresh)
        if self._chance.random() < 0.5:
            self._move_from(self._broker())
        await self._for(0.1, 3.0)
        blocked.difference_update(fresh)

    async def _cut_off(self) -> None:
        """One machine, or a group of them, is isolated."""
        names = self._names()
        group = self._chance.sample(names, self._chance.choice((1, 1, 2, 3)))
        rest = [name for name in names if name not in group]
        pairs = [pair for a in group for b in rest for pair in ((a, b), (b, a))]
        await self._block(f"{group} are cut off", pairs)

    async def _one_way(self) -> None:
        names = self._names()
        one = self._chance.choice(names)
        others = self._chance.sample(names, self._chance.choice((1, 3, len(names))))
        if self._chance.random() < 0.5:
            await self._block(f"nothing from {one} reaches {others}", [(one, o) for o in others])
        else:
            await self._block(f"nothing from {others} reaches {one}", [(o, one) for o in others])

    async def _bridge(self) -> None:
        """Two halves that share one machine."""
        names = self._names()
        self._chance.shuffle(names)
        half = len(names) // 2
        left, right = names[:half], names[half + 1 :]
        pairs = [pair for a in left for b in right for pair in ((a, b), (b, a))]
        await self._block(f"{left} and {right} share {names[half]}", pairs)

    async def _slow_link(self) -> None:
        name = self._chance.choice(self._names())
        self._note(f"the links of {name} are slow")
        self._cluster.network.slow[name] = self._chance.choice((0.01, 0.1, 0.5))
        await self._for(0.3, 3.0)
        self._cluster.network.slow.pop(name, None)

    async def _break_connections(self) -> None:
        connections = list(self._cluster.network.connections)
        for connection in connections:
            if self._chance.random() < 0.2:
                connection.close()

    async def _break_storage(self) -> None:
        """Break the connections of one broker to one storage node."""
        storage, broker = self._storage(), self._broker()
        for connection in list(self._cluster.network.connections):
            if connection.client is broker.machine and connection.server is storage.endpoint:
                self._note(f"{broker.name} loses its connection to {storage.name}")
                connection.close()

    async def _pause_metadata(self) -> None:
        self._note("the metadata store is paused")
        self._cluster.metadata_machine.pause()
        await self._for(0.1, 2.0)
        self._cluster.metadata_machine.resume()
