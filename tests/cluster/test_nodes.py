"""Storage nodes that are killed, frozen, lose or fill their disk, or flip bits, under load.

While one of three is away every publish succeeds, at the first attempt: the epochs of topics rise
when one has failed, and here they must not.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Callable

import pytest

from tests.cluster.cluster import Cluster, goes_on
from tests.storage_service.process import StorageProcess


def _lose_disk(cluster: Cluster, number: int) -> None:
    cluster.nodes[number].kill()
    cluster.nodes[number].wipe()


FAULTS: dict[str, Callable[[Cluster, int], None]] = {
    "killed": lambda cluster, number: cluster.nodes[number].kill(),
    "frozen": lambda cluster, number: cluster.nodes[number].freeze(),
    "empty-disk": _lose_disk,
    "full-disk": lambda cluster, number: cluster.nodes[number].fill_disk(),
    "cut": lambda cluster, number: cluster.wires[number].cut(),
    "silent": lambda cluster, number: cluster.wires[number].block(),
    "silent-back": lambda cluster, number: cluster.wires[number].block(there=False),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_publishes_go_on_while_a_node_is_away_and_when_it_is_back(
    three: Cluster, rng: random.Random, fault: Callable[[Cluster, int], None]
) -> None:
    async with three.load(rng) as load:
        before, mark = await load.epochs(), three.mark()
        number = rng.randrange(3)
        fault(three, number)
        await three.noticed(three.nodes[number], mark)
        await goes_on(load)
        mark = three.mark()
        await three.heal()
        await three.welcomed(three.nodes[number], mark)
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


_PLACES = 200
"""One bit in about so many bytes: few records of a load are spared."""


def flip_bits(node: StorageProcess, rng: random.Random) -> int:
    """Turn bits all over the journal of a node that does not run; returns how many."""
    assert not node.running
    flipped = 0
    for path in node.journal_files():
        content = bytearray(path.read_bytes())
        end = len(content.rstrip(b"\0"))
        for _ in range(end // _PLACES):
            content[rng.randrange(end)] ^= 1 << rng.randrange(8)
            flipped += 1
        path.write_bytes(content)
    return flipped
