"""Killed brokers, partitioned networks, and a random mixture of all faults under load.

``SULINA_CLUSTER_SECONDS`` makes the mixture longer.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.cluster.cluster import Cluster, goes_on
from tests.cluster.test_nodes import flip_bits
from tests.faults.seeds import number_from_environment


async def test_a_broker_killed_while_a_node_stands_still_is_followed_by_another(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        rng.choice(three.nodes).freeze()
        await three.new_broker()
        await goes_on(load)


async def test_everything_killed_at_once_and_a_lost_disk_lose_nothing_that_was_acknowledged(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        three.broker.kill()
        for node in three.nodes:
            node.kill()
        rng.choice(three.nodes).wipe()
        await asyncio.gather(*(node.start() for node in three.nodes))
        await asyncio.to_thread(three.broker.start)
        await goes_on(load)


async def test_publishes_wait_while_all_nodes_are_cut_off_and_go_on_afterwards(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        mark = three.mark()
        for wire in three.wires:
            wire.block()
        for node in three.nodes:
            await three.noticed(node, mark)
        for wire in three.wires:
            wire.heal()
        await goes_on(load)


async def test_a_node_that_is_a_little_slow_is_outvoted(three: Cluster, rng: random.Random) -> None:
    async with three.load(rng) as load:
        before = await load.epochs()
        rng.choice(three.wires).slow(0.3)
        await goes_on(load, 20)
        assert await load.epochs() == before, "a publish failed"


async def test_a_node_that_is_too_slow_is_replaced(four: Cluster, rng: random.Random) -> None:
    async with four.load(rng) as load:
        before, mark = await load.epochs(), four.mark()
        number = rng.randrange(4)
        four.wires[number].slow(5.0)
        await four.noticed(four.nodes[number], mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"
        # Whoever took its place makes another loss bearable.
        another = four.nodes[(number + 1) % 4]
        mark = four.mark()
        another.kill()
        await four.noticed(another, mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


SECONDS = number_from_environment("SULINA_CLUSTER_SECONDS", 8)


class _Harm:
    """Does one thing after the other to a cluster, as a source of randomness says."""

    def __init__(self, cluster: Cluster, rng: random.Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._unlucky = rng.choice(cluster.nodes)
        """Whose disk is harmed. With two such disks acknowledged records may be gone for good."""

    async def next(self) -> None:
        number = self._rng.randrange(len(self._cluster.nodes))
        node, wire = self._cluster.nodes[number], self._cluster.wires[number]
        match self._rng.randrange(11):
            case 0:
                node.kill()
            case 1 if node.running:
                node.freeze()
            case 2 if node.running:
                node.fill_disk()
            case 3:
                wire.cut()
            case 4:
                wire.block(there=self._rng.random() < 0.7, back=self._rng.random() < 0.7)
            case 5:
                wire.slow(self._rng.choice((0.05, 0.5, 5.0)))
            case 6:
                self._unlucky.kill()
                if self._unlucky.data.exists():
                    flip_bits(self._unlucky, self._rng)
            case 7:
                self._unlucky.kill()
                if self._unlucky.data.exists():
                    self._unlucky.wipe()
            case 8 if self._cluster.broker.running:
                self._cluster.broker.kill()
            case _:
                await self._cluster.heal()


@pytest.mark.timeout(200 + 5 * SECONDS)
async def test_nothing_acknowledged_is_lost_altered_or_repeated_in_a_mixture_of_all_faults(
    fresh: Cluster, rng: random.Random
) -> None:
    async with fresh.load(rng) as load:
        harm = _Harm(fresh, rng)
        end = asyncio.get_running_loop().time() + SECONDS
        while asyncio.get_running_loop().time() < end:
            await harm.next()
            await asyncio.sleep(rng.expovariate(2))
        await fresh.heal()
        await load.some_stored()
