"""Consumers that acknowledge what does not exist, ask for too much, or speak for others."""

from __future__ import annotations

import random

from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command
from tests.faults.attacker import Attacker, attacker
from tests.faults.attacks.publishing import TOPIC

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
                dead_letter_topic=rng.choice(["", "/fuzz/dead", "nonsense", "/fuzz/frames"]),
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


ATTACKS = [bad_consumer, bad_consumer, bad_consumer, many_selections]
