"""What a peer that means harm sends: commands that were altered, as in tests/fuzz, in any order;
and bytes that are no commands, not whole ones, or come where they must not."""

from __future__ import annotations

import asyncio
import random

from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PREFIX, Command, pack
from sulina.wire.encode import Origin, encode_frame
from tests.faults.attacker import Attacker, attacker
from tests.fuzz.target import altered, calls, mutated
from tests.fuzz.targets import TARGETS
from tests.wire.bodies import EXAMPLES
from tests.wire.records import sealed

TOPIC = "/default/t"
"""Of most altered commands."""
_TARGET = TARGETS["binary"]
_COMMANDS = list(EXAMPLES)
_SEEDS = [
    seed
    for seed in _TARGET.seeds()
    # Altered operations would disturb others as they may; tests/fuzz has them.
    if _COMMANDS.index(Command.ADMIN) not in {call for call, _ in calls(seed, len(_COMMANDS) + 2)}
]


async def altered_commands(port: int, rng: random.Random) -> None:
    """What clients say, with some of it altered, repeated, moved or left out."""
    data = rng.choice(_SEEDS)
    for _ in range(rng.randint(1, 6)):
        data = altered(_TARGET, data, rng, lambda part: mutated(part, rng, _SEEDS))
    async with attacker(port) as peer:
        for request, (number, body) in enumerate(calls(data, len(_TARGET.messages)), 2):
            command = _COMMANDS[number] if number < len(_COMMANDS) else Command.PING
            frame = b""
            if command is Command.PUBLISH and body:
                body, frame = body[1 : 1 + body[0]], sealed(body[1 + body[0] :])
            peer.send(command, body, frame, request=request)
        await peer.sent()
        await peer.served_or_closed()


async def unknown_producer(port: int, rng: random.Random) -> None:
    """Publish through a handle that nobody was given."""
    async with attacker(port) as peer:
        body = pb.Publish(producer=rng.choice([0, 77, (1 << 32) - 1]), number=0)
        peer.send(Command.PUBLISH, body, encode_frame(Origin("p"), 0, [b"x"], 0))
        await peer.thrown_out()


async def cut_in_a_frame(port: int, rng: random.Random) -> None:
    """Vanish within a large publish."""
    async with attacker(port) as peer:
        await peer.ask(Command.CREATE_PRODUCER, pb.CreateProducer(topic=TOPIC, name="cut"))
        frame = encode_frame(Origin("cut"), 0, [rng.randbytes(200_000)], 0)
        peer.send(Command.PUBLISH, pb.Publish(producer=1, number=0), frame[:-5])
        await peer.sent()


_TYPES = [pb.EXCLUSIVE, pb.SHARED, pb.FAILOVER, pb.KEY_SHARED]
_LARGEST = (1 << 63) - 1
_OFFSETS = [0, 1, 2, 7, 100, 65_536, 1 << 40, _LARGEST, -1, -(1 << 63)]


def _selection(rng: random.Random) -> pb.Selection:
    first = rng.choice(_OFFSETS)
    last = min(rng.choice([first, first + rng.randint(0, 300), rng.choice(_OFFSETS)]), _LARGEST)
    mask = rng.choice([b"", b"", b"\x01", rng.randbytes(40), rng.randbytes(8192), bytes(10)])
    return pb.Selection(first=first, last=last, mask=mask)


async def _subscribe(peer: Attacker, rng: random.Random) -> int:
    """The handle of a consumer; 0 if the broker would not have it."""
    type_ = rng.choice(_TYPES)
    body = pb.Subscribe(
        topic=TOPIC,
        subscription=f"{pb.SubscriptionType.Name(type_)}-{rng.randrange(2)}",
        type=type_,
        consumer=f"c{rng.randrange(5)}",
        start=pb.Start(earliest=True),
    )
    if type_ == pb.KEY_SHARED and rng.random() < 0.5:
        body.key_filters.extend(rng.choice([["*"], ["key", "?"], ["[", "*" * 50], [""]]))
    if rng.random() < 0.5:
        numbers = [0, 1, (1 << 32) - 1, 50]
        body.failure_policy.CopyFrom(
            pb.FailurePolicy(
                max_redelivery_count=rng.choice(numbers),
                ack_timeout_ms=rng.choice([*numbers, (1 << 64) - 1]),
                base_redelivery_delay_ms=rng.choice(numbers),
                max_redelivery_delay_ms=rng.choice([*numbers, (1 << 64) - 1]),
                poison=rng.choice(list(range(4))),  # type: ignore[arg-type]
                dead_letter_topic=rng.choice(["", "/default/dead", "nonsense", TOPIC]),
            )
        )
    answer = await peer.ask(Command.SUBSCRIBE, body)
    return answer.body.consumer if isinstance(answer.body, pb.Subscribed) else 0


def _misbehave(peer: Attacker, handle: int, rng: random.Random) -> None:
    request = rng.choice([0, 1000])
    chosen = [_selection(rng) for _ in range(rng.choice([0, 1, 3, 300]))]
    match rng.randrange(5):
        case 0:
            body = pb.Ack(consumer=handle, selections=chosen, cumulative=rng.random() < 0.3)
            peer.send(Command.ACK, body, request=request)
        case 1:
            nack = pb.Nack(consumer=handle, selections=chosen, reason="\u2603" * rng.randrange(9))
            nack.delay_ms = rng.choice([0, 5, (1 << 64) - 1])
            peer.send(Command.NACK, nack, request=request)
        case 2:
            flow = pb.Flow(consumer=handle, records=rng.choice([0, 1, 50, (1 << 32) - 1]))
            flow.bytes = rng.choice([0, 1, 1 << 20, (1 << 64) - 1])
            peer.send(Command.FLOW, flow, request=request)
        case 3:
            start = pb.Start(offset=rng.choice(_OFFSETS))
            if rng.random() < 0.5:
                start = pb.Start(time_us=rng.choice(_OFFSETS))
            peer.send(Command.SEEK, pb.Seek(consumer=handle, start=start), request=request)
        case _:
            last = rng.choice(
                [
                    (Command.CLOSE_CONSUMER, pb.CloseConsumer(consumer=handle)),
                    (Command.UNSUBSCRIBE, pb.Unsubscribe(consumer=handle)),
                    (Command.CLOSE_PRODUCER, pb.CloseProducer(producer=handle)),
                ]
            )
            peer.send(*last, request=request)


async def bad_consumer(port: int, rng: random.Random) -> None:
    """Consume, with as few manners as possible; sometimes in the name of others."""
    async with attacker(port) as peer:
        handle = await _subscribe(peer, rng)
        if rng.random() < 0.8:
            flow = pb.Flow(consumer=handle, records=rng.randint(1, 500), bytes=1 << 20)
            peer.send(Command.FLOW, flow)
        for _ in range(rng.randint(1, 15)):
            other = rng.choice([0, handle + 1, 12345, (1 << 32) - 1])
            _misbehave(peer, rng.choice([handle] * 5 + [other]), rng)
        await peer.sent()
        await peer.served_or_closed()


async def many_selections(port: int, rng: random.Random) -> None:
    """One acknowledgement with more parts than anybody needs."""
    async with attacker(port) as peer:
        handle = await _subscribe(peer, rng)
        few = pb.Ack(selections=[pb.Selection(first=n, last=n) for n in range(0, 100, 2)])
        many = pb.Ack(consumer=handle).SerializeToString() + few.SerializeToString() * 4000
        peer.send(Command.ACK, many, request=1000)
        await peer.sent()
        await peer.served_or_closed()


async def deep_arguments(port: int, rng: random.Random) -> None:
    """Administrative calls whose JSON is none, too deep or too large."""
    async with attacker(port) as peer:
        for arguments in (rng.randbytes(50), b"[" * 100_000, b"9" * 100_000, b'{"a":' * 50_000):
            body = pb.Admin(method="topic.create", arguments=arguments)
            assert (await peer.ask(Command.ADMIN, body)).command is Command.ERROR


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


async def without_a_greeting(port: int, rng: random.Random) -> None:
    """A good command that must not be the first."""
    async with attacker(port, greeted=False) as peer:
        peer.send(Command.LOOKUP, pb.Lookup(topic=TOPIC, create=True), request=7)
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
                (Command.LOOKUP, pb.Lookup(topic=TOPIC, create=True)),
                (Command.READ_FRAMES, pb.ReadFrames(topic=TOPIC, max_frames=99999999)),
                (Command.ADMIN, pb.Admin(method="topic.list", arguments=b"{}")),
                (Command.CREATE_PRODUCER, pb.CreateProducer(topic=TOPIC, name="p")),
            ]
        )
        peer.write(pack(question[0], 9, question[1]) * 5000)
        try:
            async with asyncio.timeout(rng.uniform(0.05, 0.5)):
                await peer.sent()
        except TimeoutError:
            pass


ATTACKS = [
    *[altered_commands] * 6,
    *[bad_consumer] * 4,
    many_selections,
    deep_arguments,
    unknown_producer,
    cut_in_a_frame,
    random_bytes,
    lying_lengths,
    without_a_greeting,
    wrong_version,
    half_a_command,
    flood,
]
