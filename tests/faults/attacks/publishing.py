"""Frames that are damaged, or say what is not true under a checksum that is right."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import count

from crc32c import crc32c

from sulina.wire import commands_pb2 as pb
from sulina.wire import header as h
from sulina.wire.commands import Command
from sulina.wire.encode import Origin, encode_control_frame, encode_frame, producer_id
from tests.faults.attacker import Attacker, attacker

TOPIC = "/fuzz/frames"
_LARGEST = (1 << 63) - 1
_sequences = count(0, 1 << 20)


def _good(name: str, rng: random.Random) -> bytes:
    records = rng.randint(1, 5)
    return encode_frame(
        Origin(name),
        next(_sequences),
        [rng.randbytes(rng.randint(0, 50)) for _ in range(records)],
        1_700_000_000_000_000,
        keys=[rng.choice([None, b"", b"key", b"\xff\xfe"]) for _ in range(records)],
    )


def _lying(name: str, rng: random.Random) -> bytes:
    """A header of any numbers around a body of any bytes; lengths and checksum are right."""
    flags = rng.choice([0, h.HAS_KEYS, h.HAS_ATTRIBUTES, h.HAS_TIMES, 1, 2, 0b11100])
    records = rng.choice([1, 2, 100, 65_536])
    called = rng.choice([name.encode(), b"\xff\xfe\xfd", b"", b"x" * 1024, b"another"])
    slots = rng.randbytes(h.padded(records)) if flags & h.HAS_KEYS else b""
    columns = rng.randbytes(8 * rng.randint(0, 100))
    number = [0, 1, -1, _LARGEST, -_LARGEST - 1]
    return h.pack_header(
        flags=flags,
        name_length=len(called),
        raw_length=rng.randrange(h.MAX_BODY) if flags & h.COMPRESSION_MASK else len(columns),
        count=records,
        schema_version=rng.randrange(1 << 32),
        schema_id=rng.randrange(1 << 64),
        producer_id=producer_id(name),
        first_sequence=rng.choice([next(_sequences), *number]),
        first_time=(first := rng.choice(number)),
        last_time=rng.choice([first, *number]),
        columns_length=len(columns),
        body=[_padded(called), slots, columns],
    ) + b"".join([_padded(called), slots, columns])


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def _truncated(name: str, rng: random.Random) -> bytes:
    frame = _good(name, rng)
    return frame[: rng.randrange(len(frame))]


def _flipped(name: str, rng: random.Random) -> bytes:
    frame = bytearray(_good(name, rng))
    frame[rng.randrange(len(frame))] ^= 1 << rng.randrange(8)
    return bytes(frame)


def _of_another(name: str, rng: random.Random) -> bytes:
    return _good("somebody else", rng)


def _control(name: str, rng: random.Random) -> bytes:
    return encode_control_frame(Origin(name), rng.randbytes(16), 0)


def _at_the_end_of_numbers(name: str, rng: random.Random) -> bytes:
    """Sequence or times that no producer reaches; the checksum is right."""
    frame = bytearray(_good(name, rng))
    at = rng.choice([40, 48, 56])
    number = rng.choice([_LARGEST, _LARGEST - 1, -1, -5, -_LARGEST - 1])
    frame[at : at + 8] = number.to_bytes(8, "little", signed=True)
    crc = crc32c(frame[h.HEADER_SIZE :], crc32c(frame[:68]))
    frame[68:72] = crc.to_bytes(4, "little")
    return bytes(frame)


_FRAMES: list[Callable[[str, random.Random], bytes]] = [
    _good,
    _lying,
    _truncated,
    _flipped,
    _of_another,
    _control,
    _at_the_end_of_numbers,
]


async def _producer(peer: Attacker, name: str) -> int:
    """The handle of a producer; 0 while others delete the topic."""
    answer = await peer.ask(Command.CREATE_PRODUCER, pb.CreateProducer(topic=TOPIC, name=name))
    return answer.body.producer if isinstance(answer.body, pb.ProducerCreated) else 0


async def bad_frames(port: int, rng: random.Random) -> None:
    """Publish all kinds of bad frames, and good ones between them, in any numbering."""
    async with attacker(port) as peer:
        name = f"liar-{rng.randrange(20)}"
        handle = await _producer(peer, name)
        for number in range(rng.randint(1, 20)):
            body = pb.Publish(producer=handle, number=rng.choice([number, 0, (1 << 64) - 1]))
            peer.send(Command.PUBLISH, body, rng.choice(_FRAMES)(name, rng))
        await peer.sent()
        assert await peer.served_or_closed() or not handle, "a bad frame is refused, and no more"


async def unknown_producer(port: int, rng: random.Random) -> None:
    """Publish through a handle that nobody was given."""
    async with attacker(port) as peer:
        await _producer(peer, "p")
        body = pb.Publish(producer=rng.choice([0, 77, (1 << 32) - 1]), number=0)
        peer.send(Command.PUBLISH, body, _good("p", rng))
        await peer.thrown_out()


async def cut_in_a_frame(port: int, rng: random.Random) -> None:
    """Vanish within a large publish."""
    async with attacker(port) as peer:
        name = f"liar-{rng.randrange(20)}"
        handle = await _producer(peer, name)
        frame = encode_frame(Origin(name), next(_sequences), [rng.randbytes(200_000)], 0)
        peer.send(Command.PUBLISH, pb.Publish(producer=handle, number=0), frame[:-5])
        await peer.sent()


ATTACKS = [bad_frames, unknown_producer, cut_in_a_frame]
