"""Decoders that need no broker: frames, the stream of commands, the JSON of operations."""

from __future__ import annotations

import json

from sulina.errors import CorruptFrame, ProtocolError, Refused
from sulina.operations.declaration import Operation
from sulina.operations.operation_list import OPERATIONS
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import Command, Incoming, pack, unpack
from sulina.wire.compression import Compression
from sulina.wire.decode import Frame
from sulina.wire.encode import Origin, encode_control_frame, encode_frame
from sulina.wire.stream import CommandStream
from tests.fuzz.target import Stateless, Target
from tests.operations.examples import EXAMPLES as OPERATION_EXAMPLES
from tests.wire.bodies import EXAMPLES
from tests.wire.loopback import opened
from tests.wire.records import NOW, assert_sound, delayed_sample, sample, sealed

_LIMIT = 256 << 10


# ---- frames ----


def frame_seeds() -> list[bytes]:
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


def fuzz_frame(data: bytes) -> None:
    """A frame is sound or ``CorruptFrame``; so are its bytes with a checksum that matches."""
    for candidate in (data, sealed(data)):
        try:
            frame = Frame(candidate)
            assert_sound(frame)
        except CorruptFrame:
            continue
        if frame.count and not frame.header.is_control:
            again = Frame(
                encode_frame(
                    Origin(
                        frame.producer_name,
                        schema_id=frame.header.schema_id,
                        schema_version=frame.header.schema_version,
                    ),
                    frame.header.first_sequence,
                    frame.payloads,
                    frame.times,
                    keys=frame.keys,
                    attributes=frame.attributes,
                    due_us=frame.due_us,
                    expires_us=frame.expires_us,
                )
            )
            assert again.payloads == frame.payloads
            assert again.times == frame.times
            assert _as_encoded(again.keys) == _as_encoded(frame.keys)
            assert again.producer_name == frame.producer_name
            assert again.due_us == frame.due_us
            assert again.expires_us == frame.expires_us


def _as_encoded(keys: list[bytes | None] | None) -> list[bytes | None] | None:
    return None if keys is None or all(key is None for key in keys) else keys


# ---- commands ----


class _Listener:
    """Takes whatever a stream decodes."""

    def __init__(self) -> None:
        self.commands: list[Incoming] = []
        self.broken: ProtocolError | None = None

    def connected(self, stream: CommandStream) -> None: ...

    def received(self, incoming: Incoming) -> None:
        assert self.broken is None, "a command is received after a protocol error"
        self.commands.append(incoming)

    def writable_again(self) -> None: ...

    def lost(self, reason: Exception | None) -> None: ...

    def broke_protocol(self, error: ProtocolError) -> None:
        self.broken = error


def fuzz_commands(data: bytes) -> None:
    """Commands are decoded, or break the protocol; the same for any pieces they arrive in.

    The first byte is the size of the pieces. Decoded commands survive encoding.
    """
    pieces, data = (data[0] or 1 if data else 1), data[1:]
    results = [_received(data, size) for size in (pieces, 1 << 20)]
    assert len(results[0].commands) == len(results[1].commands)
    assert (results[0].broken is None) is (results[1].broken is None)
    for each, other in zip(results[0].commands, results[1].commands, strict=True):
        assert each.body == other.body and each.data == other.data
        packed = pack(each.command, each.request, each.body, (each.data,)) + bytes(each.data)
        again = unpack(memoryview(bytearray(packed)))
        assert again.body == each.body and again.data == each.data


def _received(data: bytes, size: int) -> _Listener:
    listener = _Listener()
    stream = opened(CommandStream(listener, _LIMIT))
    at = 0
    while at < len(data) and stream.open:
        buffer = stream.get_buffer(-1)
        length = min(len(buffer), size, len(data) - at)
        assert length, "the stream offers no room"
        buffer[:length] = data[at : at + length]
        stream.buffer_updated(length)
        at += length
    assert stream.open is (listener.broken is None)
    return listener


def command_seeds() -> list[bytes]:
    each = [pack(command, 7, body) for command, body in EXAMPLES.items()]
    frame = sample().encode()
    publish = pack(Command.PUBLISH, 0, pb.Publish(producer=1, number=1), (frame,)) + frame
    return [*(b"\x10" + one for one in each), b"\x03" + b"".join(each), b"\x11" + publish]


# ---- JSON of operations ----

_OPERATIONS = list(OPERATIONS.values())


def fuzz_operations(data: bytes) -> None:
    """Arguments are decoded or ``Refused``; decoded ones survive encoding.

    The first byte is the number of the operation, the rest is JSON.
    """
    if not data:
        return
    declared = _OPERATIONS[data[0] % len(_OPERATIONS)]
    try:
        arguments = json.loads(data[1:])
    except (ValueError, RecursionError):
        return
    if not isinstance(arguments, dict):
        return
    try:
        decoded = declared.decoded(arguments)
    except Refused:
        return
    assert isinstance(declared, Operation)
    encoded = declared.encoded(**decoded)
    again = declared.decoded(json.loads(json.dumps(encoded)))
    assert again == decoded or decoded != decoded, (again, decoded)


def operation_seeds() -> list[bytes]:
    names = list(OPERATIONS)
    return [
        bytes([names.index(name)]) + json.dumps(arguments).encode()
        for name, arguments in OPERATION_EXAMPLES
    ]


TARGETS = [
    Target(
        name="frame",
        summary="a frame, with and without a matching checksum",
        seeds=frame_seeds,
        open=lambda: Stateless(fuzz_frame),
        memory_mib=512,
    ),
    Target(
        name="commands",
        summary="the stream of commands of the binary protocol, in pieces",
        seeds=command_seeds,
        open=lambda: Stateless(fuzz_commands),
    ),
    Target(
        name="operations",
        summary="the JSON arguments of every administrative operation",
        seeds=operation_seeds,
        open=lambda: Stateless(fuzz_operations),
    ),
]
