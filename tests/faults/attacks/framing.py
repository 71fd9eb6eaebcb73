"""Bytes that are no commands, or not whole ones, or come in the wrong order."""

from __future__ import annotations

import asyncio
import random

from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PREFIX, PROTOCOL_VERSION, Command, pack
from tests.faults.attacker import attacker

_BODIES = [
    pb.Connect(protocol=PROTOCOL_VERSION),
    pb.Lookup(topic="/fuzz/a", create=True),
    pb.CreateProducer(topic="/fuzz/a", name="p"),
    pb.Publish(producer=1, number=0),
    pb.Subscribe(topic="/fuzz/a", subscription="s", consumer="c"),
    pb.Ack(consumer=1, selections=[pb.Selection(first=0, last=1)]),
    pb.ReadFrames(topic="/fuzz/a"),
    pb.Admin(method="broker.stats", arguments=b"{}"),
]


async def random_bytes(port: int, rng: random.Random) -> None:
    """Nothing that ever was a command."""
    async with attacker(port, greeted=rng.random() < 0.5) as peer:
        peer.write(rng.randbytes(rng.randint(1, 10_000)))
        await peer.sent()
        await peer.served_or_closed()


async def lying_lengths(port: int, rng: random.Random) -> None:
    """A prefix that promises less than a prefix, more than anybody may send, or more control
    body than there is command."""
    length = rng.choice([0, 1, 11, 12, 13, 100, 1 << 16, 1 << 24, (1 << 31) - 1, (1 << 32) - 1])
    control = rng.choice([0, 1, 100, 1 << 20, (1 << 32) - 1])
    async with attacker(port, greeted=rng.random() < 0.5) as peer:
        peer.write(PREFIX.pack(length, rng.randrange(70), 0, 0, 1, control))
        peer.write(rng.randbytes(rng.randint(0, 200)))
        await peer.sent()
        if length > 1 << 24 or length < 12:
            await peer.closed()


async def random_bodies(port: int, rng: random.Random) -> None:
    """Commands of every kind, also those that only brokers send, with any bytes for a body."""
    async with attacker(port) as peer:
        for request in range(2, rng.randint(3, 20)):
            body = rng.choice(_BODIES).SerializeToString()
            if rng.random() < 0.5:
                altered = bytearray(body or b"\0")
                altered[rng.randrange(len(altered))] = rng.randrange(256)
                body = bytes(altered)
            else:
                body = rng.randbytes(rng.randint(0, 30))
            data = rng.randbytes(rng.choice([0, 0, 1, 88, 1000]))
            peer.send(rng.choice(list(Command)), body, data, request=rng.choice([0, request]))
        await peer.sent()
        await peer.served_or_closed()


async def without_a_greeting(port: int, rng: random.Random) -> None:
    """A good command that must not be the first."""
    async with attacker(port, greeted=False) as peer:
        peer.send(Command.LOOKUP, pb.Lookup(topic="/fuzz/a", create=True), request=7)
        await peer.thrown_out()


async def wrong_version(port: int, rng: random.Random) -> None:
    """A client of another age."""
    async with attacker(port, greeted=False) as peer:
        peer.send(Command.CONNECT, pb.Connect(protocol=rng.randint(2, 1 << 30)), request=7)
        await peer.thrown_out()


async def half_a_command(port: int, rng: random.Random) -> None:
    """Begin a command, be silent for a while, and vanish."""
    async with attacker(port, greeted=rng.random() < 0.8) as peer:
        length = rng.choice([100, 5000, 1 << 20, 15 << 20])
        peer.write(PREFIX.pack(length, Command.PUBLISH, 0, 0, 0, 4))
        peer.write(rng.randbytes(rng.randint(0, min(length, 100_000) - 13)))
        await peer.sent()
        await asyncio.sleep(rng.uniform(0, 0.3))


async def flood(port: int, rng: random.Random) -> None:
    """Ask and ask, and never read an answer."""
    async with attacker(port) as peer:
        question = rng.choice(
            [
                (Command.PING, pb.Ping()),
                (Command.LOOKUP, pb.Lookup(topic="/fuzz/a", create=True)),
                (Command.READ_FRAMES, pb.ReadFrames(topic="/fuzz/a", max_frames=99999999)),
                (Command.ADMIN, pb.Admin(method="topic.list", arguments=b"{}")),
                (Command.CREATE_PRODUCER, pb.CreateProducer(topic="/fuzz/a", name="p")),
            ]
        )
        peer.write(pack(question[0], 9, question[1]) * 5000)
        try:
            async with asyncio.timeout(rng.uniform(0.05, 0.5)):
                await peer.sent()
        except TimeoutError:
            pass


ATTACKS = [
    random_bytes,
    lying_lengths,
    random_bodies,
    without_a_greeting,
    wrong_version,
    half_a_command,
    flood,
]
