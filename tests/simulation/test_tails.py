"""Recovery from the answers to fences: the same end as with reads, without any read."""

from __future__ import annotations

import pytest

from storage_grpc.quorum.ledgers import QuorumLedgers
from sulina.errors import Unavailable
from tests.simulation.bench import LEDGER, QuorumBench, on_bench

TAIL = 16 << 10


async def payloads(ledgers: QuorumLedgers) -> list[bytes]:
    found = await ledgers.read(LEDGER, 0, max_entries=100, max_bytes=1 << 20)
    return [bytes(entry.payload) for entry in found]


def test_a_small_ledger_is_recovered_and_looked_into_without_a_read() -> None:
    async def scenario(bench: QuorumBench) -> None:
        writer = await bench.ledgers().create(LEDGER)
        for text in (b"one", b"two", b"three"):
            await writer.append(text)
        for node in bench.nodes:
            node.hold("read", "rewrite")
        owner = bench.ledgers()
        assert await owner.recover(LEDGER) == 2
        assert await payloads(owner) == [b"one", b"two", b"three"]
        heads = await owner.read(LEDGER, 1, max_entries=2, max_bytes=99, head=2)
        assert [(head.entry, bytes(head.payload)) for head in heads] == [(1, b"tw"), (2, b"th")]
        assert len(await owner.read(LEDGER, 0, max_entries=9, max_bytes=6)) == 2
        assert len(await owner.read(LEDGER, 0, max_entries=9, max_bytes=1)) == 1

    on_bench(scenario, tail=TAIL)


def test_an_entry_that_one_node_shows_is_written_again() -> None:
    async def scenario(bench: QuorumBench) -> None:
        _, b, c = bench.nodes
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"kept")
        b.hold("append")
        c.hold("append")
        writer.append(b"under way")
        await bench.settle()
        for node in bench.nodes:
            node.hold("read")
        c.hold("fence")
        owner = bench.ledgers()
        assert await owner.recover(LEDGER) == 1
        assert b.has(1), "an ack quorum has what is recovered"
        assert await payloads(owner) == [b"kept", b"under way"]

    on_bench(scenario, tail=TAIL)


def test_an_entry_that_enough_fenced_nodes_lack_is_cut_off() -> None:
    async def scenario(bench: QuorumBench) -> None:
        a, b, c = bench.nodes
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"kept")
        b.hold("append")
        c.hold("append")
        late = writer.append(b"under way")
        await bench.settle()
        a.hold("fence")
        owner = bench.ledgers()
        assert await owner.recover(LEDGER) == 0
        b.release("append")
        c.release("append")
        await bench.settle(5.0)
        assert late.done() and late.exception() is not None, "nobody acknowledged it afterwards"
        assert await payloads(owner) == [b"kept"]

    on_bench(scenario, tail=TAIL)


def test_a_node_in_doubt_does_not_rule_out_what_a_silent_one_may_have() -> None:
    async def scenario(bench: QuorumBench) -> None:
        _, b, c = bench.nodes
        writer = await bench.ledgers().create(LEDGER)
        await writer.append(b"kept")
        await bench.settle()
        await b.lose_power()
        c.hold("fence", "read")
        with pytest.raises(Unavailable):
            await bench.ledgers().recover(LEDGER)
        c.release("fence", "read")
        assert await bench.ledgers().recover(LEDGER) == 0

    on_bench(scenario, tail=TAIL)


def test_a_ledger_that_is_larger_than_a_tail_is_read() -> None:
    async def scenario(bench: QuorumBench) -> None:
        writer = await bench.ledgers().create(LEDGER)
        sent = [b"%d" % number * 100 for number in range(8)]
        for payload in sent:
            await writer.append(payload)
        owner = bench.ledgers()
        assert await owner.recover(LEDGER) == 7
        assert await payloads(owner) == sent

    on_bench(scenario, tail=150)
