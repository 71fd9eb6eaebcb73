"""All faults in a random mixture, for a while, decided by a seed; then everything must converge.

``SULINA_CLUSTER_SECONDS`` makes it longer.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.damage import flip_bits
from tests.faults.seeds import number_from_environment

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
