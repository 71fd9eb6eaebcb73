"""``RemoteNodes``: which nodes are known, chosen, avoided, or came back changed."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from storage_grpc.quorum.ledgers import QuorumLedgers
from storage_grpc.quorum.settings import QuorumSettings, QuorumTimeouts
from storage_grpc.remote import RemoteNode, RemoteNodes
from storage_grpc.service.server import StorageServer
from sulina.errors import Refused, SulinaError, Unavailable, UnknownOutcome
from sulina.metadata.embedded import EmbeddedStore
from sulina.runtime.real_clock import RealClock
from tests.storage_service.serving import QUICK, serving

PATIENCE = 10.0


def incarnation(number: int) -> str:
    return f"{number:08x}" * 4


def member(number: int, disk: int | None = None) -> str:
    return f"storage-{number}@{number if disk is None else disk:08x}"


class MonitoredServers:
    """Three servers that can stop and start, and the ``RemoteNodes`` that monitor them."""

    def __init__(self, nodes: RemoteNodes, lives: dict[int, AsyncExitStack]) -> None:
        self.nodes = nodes
        self.ports: dict[int, int] = {}
        self._lives = lives

    async def start(
        self, number: int, disk: int | None = None, name: str = "", life: str = ""
    ) -> StorageServer:
        self._lives[number] = AsyncExitStack()
        server = await self._lives[number].enter_async_context(
            serving(
                port=self.ports.get(number, 0),
                id=name or f"storage-{number}",
                incarnation=incarnation(number if disk is None else disk),
                life=life,
            )
        )
        self.ports[number] = server.port
        return server

    async def stop(self, number: int) -> None:
        await self._lives.pop(number).aclose()

    def healthy(self) -> set[str]:
        return {node.id for node in self.nodes.choose(9)}

    async def until(self, *members: str) -> None:
        """Wait until exactly these are chosen."""
        async with asyncio.timeout(PATIENCE):
            while self.healthy() != set(members):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def cluster(
    count: int = 3, seed: int = 1, zones: str = "", zone: str = ""
) -> AsyncIterator[MonitoredServers]:
    """``zones`` has a letter for the zone of each node; ``zone`` is ours."""
    lives: dict[int, AsyncExitStack] = {}
    made = MonitoredServers(RemoteNodes([], RealClock(), random.Random(0)), lives)
    try:
        for number in range(1, count + 1):
            await made.start(number)
        places = [f"storage-{number}=127.0.0.1:{port}" for number, port in made.ports.items()]
        if zones:
            places = [f"{place}/{each}" for place, each in zip(places, zones, strict=True)]
        settings = replace(QUICK, zone=zone)
        async with RemoteNodes(places, RealClock(), random.Random(seed), settings) as made.nodes:
            async with asyncio.timeout(PATIENCE):
                await made.nodes.ready(count)
            yield made
    finally:
        for life in lives.values():
            await life.aclose()


async def test_members_are_known_by_name_and_incarnation() -> None:
    async with cluster() as made:
        assert made.healthy() == {member(1), member(2), member(3)}
        for number in (1, 2, 3):
            node = made.nodes.get(member(number))
            assert node is not None and node.id == member(number)
        for unknown in ("storage-1", member(4), member(1, disk=9), ""):
            assert made.nodes.get(unknown) is None


async def test_only_as_many_as_asked_for_are_chosen_and_none_of_those_excluded() -> None:
    async with cluster() as made:
        assert len(made.nodes.choose(2)) == 2
        assert made.nodes.choose(0) == []
        chosen = made.nodes.choose(3, exclude={member(1), "somebody else"})
        assert {node.id for node in chosen} == {member(2), member(3)}


async def test_equal_nodes_are_chosen_equally_often_and_the_same_by_the_same_seed() -> None:
    rounds: list[list[str]] = []
    async with cluster(seed=5) as made:
        places = [f"storage-{number}=127.0.0.1:{port}" for number, port in made.ports.items()]
        for _ in range(2):
            async with RemoteNodes(places, RealClock(), random.Random(5), QUICK) as nodes:
                await nodes.ready(3)
                rounds.append([node.id for _ in range(300) for node in nodes.choose(1)])
    assert rounds[0] == rounds[1]
    assert all(count > 60 for count in Counter(rounds[0]).values())


async def test_the_node_with_the_least_to_do_comes_first() -> None:
    async with cluster() as made:
        busy = made.nodes.get(member(2))
        assert busy is not None
        waiting = [busy.append(1, n, -1, bytes(1 << 20)) for n in range(8)]
        for _ in range(10):
            assert [node.id for node in made.nodes.choose(3)][2] == member(2)
        await asyncio.gather(*waiting)


async def test_a_failed_node_is_avoided_for_a_while_and_comes_back() -> None:
    async with cluster() as made:
        made.nodes.failed(member(2))
        made.nodes.failed("nobody")
        assert made.healthy() == {member(1), member(3)}
        assert made.nodes.get(member(2)) is not None
        await made.until(member(1), member(2), member(3))


async def test_a_node_that_is_gone_is_not_chosen_until_it_is_back() -> None:
    async with cluster() as made:
        await made.stop(3)
        await made.until(member(1), member(2))
        assert made.nodes.get(member(3)) is not None
        await made.start(3)
        await made.until(member(1), member(2), member(3))


async def test_a_node_in_another_life_is_the_same_member_and_has_to_be_met_again() -> None:
    async with cluster() as made:
        before = made.nodes.get(member(3))
        assert before is not None
        await before.append(1, 0, -1, b"of its first life")
        await made.stop(3)
        await made.start(3, life="the second")
        async with asyncio.timeout(PATIENCE):
            while made.nodes.get(member(3)) is before:
                await asyncio.sleep(0.01)
        with pytest.raises((Unavailable, UnknownOutcome)):
            await before.append(1, 1, -1, b"to its first life")
        met = made.nodes.get(member(3))
        assert met is not None and met.life == "the second"
        await met.append(1, 0, -1, b"of its second life")


async def test_a_node_with_another_disk_is_another_member_and_the_old_one_is_nobody() -> None:
    async with cluster() as made:
        before = made.nodes.get(member(3))
        assert before is not None
        await made.stop(3)
        await made.start(3, disk=77)
        await made.until(member(1), member(2), member(3, disk=77))
        assert made.nodes.get(member(3)) is None
        after = made.nodes.get(member(3, disk=77))
        assert after is not None
        await after.append(1, 0, -1, b"new")
        with pytest.raises(SulinaError):
            await before.append(1, 0, -1, b"old")


async def test_a_stranger_at_the_address_of_a_node_is_not_used() -> None:
    async with cluster() as made:
        await made.stop(1)
        await made.start(1, name="somebody-else")
        await made.until(member(2), member(3))
        await asyncio.sleep(4 * QUICK.check_seconds)
        assert made.healthy() == {member(2), member(3)}


async def test_a_node_that_fails_again_and_again_is_avoided_longer_each_time() -> None:
    clock = RealClock()
    async with cluster() as made:
        pauses = []
        for _ in range(3):
            made.nodes.failed(member(1))
            began = clock.now()
            await made.until(member(1), member(2), member(3))
            pauses.append(clock.now() - began)
        # Lower bounds only: a check may come late.
        for pause, least in zip(pauses, (1, 2, 4), strict=True):
            assert pause >= least * QUICK.first_avoid


async def test_a_ledger_with_too_few_copies_rolls_when_all_nodes_are_back() -> None:
    metadata = await EmbeddedStore.open(RealClock())
    async with cluster() as made:
        ledgers = QuorumLedgers(
            made.nodes, metadata, RealClock(), QuorumSettings(), QuorumTimeouts(append=5, call=5)
        )
        await made.stop(3)
        await made.until(member(1), member(2))
        small = await ledgers.create(1)
        assert small.metadata.under_replicated
        await small.append(b"two copies")
        await made.start(3)
        await made.until(member(1), member(2), member(3))
        assert small.wants_roll
        whole = await ledgers.create(2)
        assert set(whole.metadata.ensemble_of(0)) == made.healthy()
        await whole.append(b"three copies")
        await whole.close()
        await ledgers.delete(2)
        for node in made.nodes.choose(3):
            assert isinstance(node, RemoteNode)
            assert 2 not in await node.ledgers()
    await metadata.close()


async def test_copies_are_spread_over_zones() -> None:
    async with cluster(5, zones="aaabc") as made:
        for _ in range(20):
            chosen = {node.id for node in made.nodes.choose(3)}
            assert chosen > {member(4), member(5)}
        # A lost copy is replaced in its own zone, where no other is.
        made.nodes.failed(member(1))
        kept = {member(4), member(5)}
        for _ in range(20):
            [spare] = made.nodes.choose(1, exclude={*kept, member(1)})
            assert spare.id in (member(2), member(3))
        assert len(made.nodes.choose(9)) == 4


async def test_reads_ask_a_healthy_node_of_the_own_zone_first() -> None:
    metadata = await EmbeddedStore.open(RealClock())
    async with cluster(zones="abc", zone="b") as made:
        assert [made.nodes.near(member(number)) for number in (1, 2, 3)] == [False, True, False]
        ledgers = QuorumLedgers(
            made.nodes, metadata, RealClock(), QuorumSettings(), near=made.nodes.near
        )
        asked: list[str] = []
        for number in (1, 2, 3):
            node = made.nodes.get(member(number))
            assert node is not None
            _note_reads(node, asked)
        for ledger in (1, 2, 3):
            writer = await ledgers.create(ledger)
            await writer.append(b"x" * ledger)
            found = await ledgers.read(ledger, 0, max_entries=1, max_bytes=100)
            assert [bytes(entry.payload) for entry in found] == [b"x" * ledger]
        assert asked == [member(2)] * 3
        made.nodes.failed(member(2))
        assert not made.nodes.near(member(2))
        await ledgers.read(1, 0, max_entries=1, max_bytes=100)
        assert asked[-1] != member(2)
    await metadata.close()


async def test_without_zones_nobody_is_near() -> None:
    async with cluster(1, zones="a") as made:
        assert not made.nodes.near(member(1))


def _note_reads(node: RemoteNode, asked: list[str]) -> None:
    """Append the node's name to ``asked`` whenever it is asked for entries."""
    read = node.read

    async def noting(*positional: Any, **named: Any) -> Any:
        asked.append(node.id)
        return await read(*positional, **named)

    node.read = noting  # type: ignore[method-assign]


@pytest.mark.parametrize("place", ["", "storage-1", "=host:1", "a=host", "a=:1", "a=h:x", "a=h:0"])
def test_a_place_that_makes_no_sense_is_refused(place: str) -> None:
    with pytest.raises(Refused, match="name=host:port"):
        RemoteNodes([place], RealClock(), random.Random(1))


def test_two_nodes_of_the_same_name_are_refused() -> None:
    with pytest.raises(Refused, match="same name"):
        RemoteNodes(["a=h:1", "a=h:2"], RealClock(), random.Random(1))
