"""Fuzzes frames and commands: ``python -m tests.wire.fuzz --seconds 60 --seed 1``.

Good input is altered at random, more often than not with its checksum made to match again, and
opened. A frame must be sound or give ``CorruptFrame``; a command must be understood or give
``ProtocolError``, whatever the pieces in which its bytes arrive. Every case follows from the seed
and its number, which are printed when one fails; ``--case`` runs that one alone. Memory may not
grow beyond what the largest frame needs.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sulina.errors import CorruptFrame, ProtocolError
from sulina.wire.commands import Command, Incoming, pack
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_control_frame, encode_frame
from sulina.wire.stream import CommandStream
from tests.wire.bodies import EXAMPLES
from tests.wire.loopback import opened
from tests.wire.records import (
    FIELDS,
    NOW,
    assert_sound,
    columns_of,
    delayed_sample,
    lie,
    sample,
    sealed,
    with_columns,
)

_MEMORY_KIB = 512 << 10
_LIMIT = 256 << 10


@dataclass
class Tally:
    """What came of the cases so far."""

    cases: int = 0
    understood: int = 0
    refused: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        rate = self.cases / self.seconds if self.seconds else 0.0
        return (
            f"{self.cases} cases in {self.seconds:.1f} s, {rate:,.0f} a second: "
            f"{self.understood} understood, {self.refused} refused, none failed"
        )


def _frames() -> list[bytes]:
    words = [b"over and over " * 9] * 40
    keys: list[bytes | None] = [b"key %d" % (number % 5) for number in range(40)]
    return [
        *(sample(compression).encode() for compression in Compression),
        delayed_sample().encode(),
        *(encode_frame(Origin("p"), 5, words, NOW, compression=method) for method in Compression),
        encode_frame(Origin("p"), 5, words, NOW, keys=keys, compression=Compression.ZSTD),
        encode_frame(Origin(""), 0, [b""], NOW),
        encode_control_frame(Origin("broker"), b"state", NOW),
    ]


FRAMES = _frames()
COMMANDS = [pack(command, 7, body) for command, body in EXAMPLES.items()]
_INTERESTING = [0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF]


def altered(random: Random, data: bytes, others: list[bytes]) -> bytes:
    """``data`` with one to four things done to it."""
    result = bytearray(data)
    for _ in range(random.randint(1, 4)):
        at = random.randrange(len(result) + 1)
        match random.randrange(7):
            case 0 if at < len(result):
                result[at] ^= 1 << random.randrange(8)
            case 1 if at < len(result):
                result[at] = random.choice(_INTERESTING) & 0xFF
            case 2:
                value = random.choice(_INTERESTING).to_bytes(4, "little")
                result[at & ~3 : (at & ~3) + 4] = value
            case 3:
                result[at:at] = random.randbytes(random.randrange(20))
            case 4:
                del result[at : at + random.randrange(1, 40)]
            case 5:
                other = random.choice(others)
                result[at:] = other[random.randrange(len(other)) :]
            case _:
                del result[at:]
    return bytes(result)


def fuzz_frame(random: Random) -> bool:
    """One altered frame; whether it could still be opened."""
    good = random.choice(FRAMES)
    match random.randrange(4):
        case 0:
            field = random.choice([name for name in FIELDS if name != "magic"])
            bits = {"B": 8, "H": 16, "I": 32, "Q": 64, "q": 63}[FIELDS[field][1][-1]]
            value = random.choice([random.choice(_INTERESTING), random.getrandbits(64)])
            data = lie(good, **{field: value & ((1 << bits) - 1)})
        case 1:
            columns = altered(random, columns_of(good), FRAMES)
            length = int.from_bytes(good[12:16], "little")
            data = with_columns(good, columns, raw_length=random.choice([length, len(columns)]))
        case 2:
            data = altered(random, good, FRAMES)
        case _:
            data = sealed(altered(random, good, FRAMES))
    try:
        frame = Frame(data)
    except CorruptFrame:
        return False
    assert_sound(frame)
    return True


class _Listener:
    """Takes whatever a stream understands."""

    def __init__(self) -> None:
        self.commands: list[Incoming] = []
        self.broken: ProtocolError | None = None

    def connected(self, stream: CommandStream) -> None: ...

    def received(self, incoming: Incoming) -> None:
        assert self.broken is None, "nothing is received after the protocol was broken"
        assert isinstance(incoming.command, Command)
        self.commands.append(incoming)

    def writable_again(self) -> None: ...

    def lost(self, reason: Exception | None) -> None: ...

    def broke_protocol(self, error: ProtocolError) -> None:
        self.broken = error


def fuzz_commands(random: Random) -> bool:
    """Altered commands, in pieces; whether all that was whole could be understood."""
    data = b"".join(random.choices(COMMANDS, k=random.randint(1, 5)))
    if random.random() < 0.9:
        data = altered(random, data, COMMANDS)
    listener = _Listener()
    stream = opened(CommandStream(listener, _LIMIT))
    at = 0
    while at < len(data) and stream.open:
        buffer = stream.get_buffer(-1)
        length = min(len(buffer), random.choice([1, 3, 16, 17, 100, 1 << 20]), len(data) - at)
        assert length
        buffer[:length] = data[at : at + length]
        stream.buffer_updated(length)
        at += length
    assert stream.open is (listener.broken is None)
    return stream.open


TARGETS: list[Callable[[Random], bool]] = [fuzz_frame, fuzz_commands]


def run_case(seed: int, case: int) -> bool:
    """One case; whether its input was understood. Raises whatever should not be raised."""
    return TARGETS[case % len(TARGETS)](Random(f"{seed}:{case}"))


def run(seed: int, seconds: float) -> Tally:
    """Run cases for so long. A failure says which one it was."""
    tally = Tally()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    while (elapsed := time.monotonic() - start) < seconds:
        for _ in range(100):
            try:
                understood = run_case(seed, tally.cases)
            except Exception as error:
                again = f"python -m tests.wire.fuzz --seed {seed} --case {tally.cases}"
                raise AssertionError(f"{error!r}: run it again with {again}") from error
            tally.cases += 1
            tally.understood += understood
            tally.refused += not understood
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < _MEMORY_KIB, f"{grown} KiB more were needed, up to case {tally.cases}"
    tally.seconds = elapsed
    return tally


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.wire.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns())
    parser.add_argument("--case", type=int, help="run only this case")
    chosen = parser.parse_args(arguments)
    if chosen.case is not None:
        sys.stdout.write(f"understood: {run_case(chosen.seed, chosen.case)}\n")
        return 0
    sys.stdout.write(f"seed {chosen.seed}: {run(chosen.seed, chosen.seconds)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
