"""Brokers that are killed, alone or with nodes: the next one has all that was acknowledged."""

from __future__ import annotations

import asyncio
import random

from tests.cluster.cluster import Cluster, goes_on


async def test_a_new_broker_takes_over_while_a_node_is_away(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        mark = three.mark()
        victim = rng.choice(three.nodes)
        victim.kill()
        await three.noticed(victim, mark)
        await three.new_broker()
        await goes_on(load)
        await victim.start()
        await goes_on(load)


async def test_a_broker_killed_while_a_node_stands_still_is_followed_by_another(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        rng.choice(three.nodes).freeze()
        await three.new_broker()
        await goes_on(load)


async def test_everything_killed_at_once_comes_back_with_all_that_was_acknowledged(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        three.broker.kill()
        for node in three.nodes:
            node.kill()
        await asyncio.gather(*(node.start() for node in three.nodes))
        await asyncio.to_thread(three.broker.start)
        await goes_on(load)


async def test_everything_killed_at_once_with_one_disk_lost_comes_back_with_all_acknowledged(
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
