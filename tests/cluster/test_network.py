"""The network between a broker and its storage nodes: partitions, whole and one-way, and delays."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster, goes_on
from tests.support.wire import Wire

PARTITIONS = {
    "cut": Wire.cut,
    "silent": Wire.block,
    "silent-there": lambda wire: wire.block(back=False),
    "silent-back": lambda wire: wire.block(there=False),
}


@pytest.mark.parametrize("part", PARTITIONS.values(), ids=PARTITIONS)
async def test_publishes_go_on_while_one_node_is_cut_off(
    three: Cluster, rng: random.Random, part: Callable[[Wire], None]
) -> None:
    async with three.load(rng) as load:
        before, mark = await load.epochs(), three.mark()
        number = rng.randrange(3)
        part(three.wires[number])
        await three.noticed(three.nodes[number], mark)
        await goes_on(load)
        mark = three.mark()
        three.wires[number].heal()
        await three.welcomed(three.nodes[number], mark)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"


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


async def test_nodes_that_all_answer_late_are_waited_for(
    three: Cluster, rng: random.Random
) -> None:
    async with three.load(rng) as load:
        before = await load.epochs()
        for wire in three.wires:
            wire.slow(0.2)
        await goes_on(load)
        assert await load.epochs() == before, "a publish failed"
