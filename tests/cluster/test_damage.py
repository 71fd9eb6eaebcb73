"""Damaged disks of storage nodes: what they hold is never served wrong, and nothing is missing."""

from __future__ import annotations

import random

from tests.cluster.cluster import Cluster, goes_on
from tests.cluster.damage import flip_bits


async def test_flipped_bits_on_one_node_are_never_served_and_nothing_is_missing(
    fresh: Cluster, rng: random.Random
) -> None:
    async with fresh.load(rng) as load:
        await fresh.new_broker()  # so that some ledgers are closed and some are open
        await goes_on(load)
        before, mark = await load.epochs(), fresh.mark()
        victim = rng.choice(fresh.nodes)
        victim.kill()
        await fresh.noticed(victim, mark)
        assert flip_bits(victim, rng)
        mark = fresh.mark()
        await victim.start()
        await fresh.welcomed(victim, mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"
        # Takes over with the damaged node in the ensemble of every open ledger.
        await fresh.new_broker()
        await goes_on(load)


async def test_with_one_node_damaged_and_one_away_nothing_wrong_is_served_nor_anything_lost(
    fresh: Cluster, rng: random.Random
) -> None:
    async with fresh.load(rng) as load:
        damaged, away = rng.sample(fresh.nodes, 2)
        damaged.kill()
        assert flip_bits(damaged, rng)
        mark = fresh.mark()
        await damaged.start()
        await fresh.welcomed(damaged, mark)
        mark = fresh.mark()
        away.kill()
        await fresh.noticed(away, mark)
        # These are two faults: publishes may have to wait. A new broker knows nothing from its
        # cache and has the damaged node to ask.
        await fresh.new_broker()
        mark = fresh.mark()
        await away.start()
        await fresh.welcomed(away, mark)
        await goes_on(load)
