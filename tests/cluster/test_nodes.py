"""Storage nodes that are killed, stand still, lose their disk or fill it, under load.

While one of three is away every publish succeeds, at the first attempt: the epochs of topics rise
when one has failed, and here they must not.
"""

from __future__ import annotations

import asyncio
import random
import signal

from tests.cluster.cluster import Cluster, goes_on


async def test_publishes_go_on_while_a_killed_node_is_away_and_when_it_is_back(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        before, mark = await load.epochs(), three.mark()
        victim = rng.choice(three.nodes)
        victim.kill()
        await three.noticed(victim, mark)
        await goes_on(load)
        mark = three.mark()
        await victim.start()
        await three.welcomed(victim, mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


async def test_publishes_go_on_while_a_node_stands_still_for_longer_than_the_time_out(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        before, mark = await load.epochs(), three.mark()
        victim = rng.choice(three.nodes)
        victim.freeze()
        await three.noticed(victim, mark)
        await goes_on(load)
        mark = three.mark()
        victim.thaw()
        await three.welcomed(victim, mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


async def test_a_node_that_comes_back_with_an_empty_disk_takes_part_and_nothing_is_missing(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        before, mark = await load.epochs(), three.mark()
        victim = rng.choice(three.nodes)
        victim.kill()
        await three.noticed(victim, mark)
        await goes_on(load)
        victim.wipe()
        mark = three.mark()
        await victim.start()
        await three.welcomed(victim, mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


async def test_publishes_go_on_while_the_disk_of_a_node_is_full(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        before, mark = await load.epochs(), three.mark()
        victim = rng.choice(three.nodes)
        victim.fill_disk()
        await three.noticed(victim, mark)
        await goes_on(load)
        victim.free_disk()
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


async def test_publishes_go_on_while_all_nodes_are_restarted_one_after_the_other(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        before = await load.epochs()
        for node in three.nodes:
            assert await node.end(signal.SIGTERM) == 0
            await goes_on(load)
            mark = three.mark()
            await node.start()
            await three.welcomed(node, mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


async def test_nothing_acknowledged_is_lost_when_all_nodes_are_killed_at_once(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        for node in three.nodes:
            node.kill()
        await asyncio.gather(*(node.start() for node in three.nodes))
        await goes_on(load)


async def test_a_node_to_spare_takes_the_place_of_a_killed_one_so_that_another_may_go(
    four: Cluster, rng: random.Random
) -> None:
    async with four.load(rng) as load:
        before = await load.epochs()
        for victim in rng.sample(four.nodes, 2):
            mark = four.mark()
            victim.kill()
            await four.noticed(victim, mark)
            await goes_on(load)
        assert await load.epochs() == before, "a publish failed"
