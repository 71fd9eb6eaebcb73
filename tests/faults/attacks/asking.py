"""Requests with arguments of the wrong kind, size or depth."""

from __future__ import annotations

import json
import random
from typing import Any

from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.faults.attacker import attacker
from tests.faults.attacks.publishing import TOPIC

_METHODS = [
    "broker.stats",
    "namespace.create",
    "namespace.delete",
    "namespace.list",
    "namespace.describe",
    "topic.create",
    "topic.delete",
    "topic.describe",
    "topic.list",
    "subscription.create",
    "subscription.delete",
    "subscription.describe",
    "subscription.list",
    "subscription.policy",
    "subscription.dispatch",
    "subscription.seek",
    "nothing.known",
    "",
]
_NAMES = [
    "/fuzz/b",
    "/fuzz/c",
    TOPIC,
    "/fuzz/b-part-0",
    "fuzz",
    "/",
    "",
    "/a/b/c",
    "/fuzz/\u2603",
    "/../x",
]
_ODD: list[Any] = [
    None,
    True,
    -1,
    0,
    3,
    1 << 70,
    1.5,
    "x",
    "EXCLUSIVE-0",
    "latest",
    "y" * 300,
    "\x00",
    [],
    {},
    [[]],
    {"offset": 1 << 70},
    {"offset": -5},
    {"time_us": -(1 << 70)},
    float("nan"),
    float("inf"),
    10**4000,
]
_ARGUMENTS = [
    "topic",
    "subscription",
    "namespace",
    "partitions",
    "delivery",
    "type",
    "start",
    "all",
    "max_redelivery_count",
    "ack_timeout_ms",
    "base_redelivery_delay_ms",
    "max_redelivery_delay_ms",
    "backoff",
    "poison",
    "dead_letter_topic",
]


def _arguments(rng: random.Random) -> bytes:
    match rng.randrange(8):
        case 0:
            return rng.randbytes(rng.randint(0, 50))
        case 1:
            return rng.choice([b"[" * 100_000, b"9" * 100_000])
        case 2:
            return b'{"a":' * 50_000
        case _:
            chosen = {name: rng.choice(_ODD) for name in rng.sample(_ARGUMENTS, 5)}
            good = ["EXCLUSIVE-0", "SHARED-1", "KEY_SHARED-0", "FAILOVER-1"]
            chosen["topic"] = rng.choice([*[TOPIC] * 50, *_NAMES, *_ODD])
            chosen["subscription"] = rng.choice([*good * 10, "new", *_ODD])
            return json.dumps(chosen).encode()


async def bad_administration(port: int, rng: random.Random) -> None:
    """Administrative calls with any arguments."""
    async with attacker(port) as peer:
        for _ in range(rng.randint(1, 8)):
            body = pb.Admin(method=rng.choice(_METHODS), arguments=_arguments(rng))
            answer = await peer.ask(Command.ADMIN, body)
            assert answer.command in (Command.ADMIN_RESULT, Command.ERROR)


async def bad_names(port: int, rng: random.Random) -> None:
    """Topics, producers and consumers of names that can't be, and starts that can't be."""
    async with attacker(port) as peer:
        start = pb.Start(offset=rng.choice([-5, (1 << 63) - 1, 3]))
        if rng.random() < 0.5:
            start = pb.Start(time_us=rng.choice([-5, (1 << 63) - 1, 3]))
        topic, label = rng.choice(_NAMES), rng.choice(["", "a", "\n", "z" * 10_000, "\u2603"])
        look = pb.Lookup(topic=topic, create=rng.random() < 0.5)
        look.delivery = rng.choice([pb.DELIVERY_DEFAULT, pb.RELIABLE, pb.NON_RELIABLE])
        await peer.ask(Command.LOOKUP, look)
        await peer.ask(Command.CREATE_PRODUCER, pb.CreateProducer(topic=topic, name=label))
        subscribe = pb.Subscribe(topic=topic, subscription=label, consumer="c", start=start)
        await peer.ask(Command.SUBSCRIBE, subscribe)
        read = pb.ReadFrames(topic=topic, start=start, max_frames=rng.choice([0, 1, (1 << 32) - 1]))
        read.max_bytes = rng.choice([0, 1, (1 << 64) - 1])
        await peer.ask(Command.READ_FRAMES, read)


ATTACKS = [bad_administration, bad_administration, bad_names]
