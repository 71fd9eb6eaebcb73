"""The binary protocol's commands: numbers, bodies and encoding. ``stream`` does the I/O."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from google.protobuf.message import DecodeError, Message

from sulina.errors import (
    AlreadyExists,
    Fenced,
    NotFound,
    Overloaded,
    ProtocolError,
    Refused,
    Retriable,
    SignInNeeded,
    StorageFull,
    SulinaError,
    TooLarge,
    UnknownOutcome,
)
from sulina.runtime.seam import Buffer
from sulina.wire import commands_pb2 as pb

PROTOCOL_VERSION: Final = 1
PREFIX: Final = struct.Struct("<IBBHII")
LENGTH_FIELD: Final = 4


class Command(IntEnum):
    """Command numbers on the wire. Add new ones; never change or reuse one."""

    CONNECT = 1
    CONNECTED = 2
    PING = 3
    PONG = 4
    ERROR = 5
    DONE = 6
    LOOKUP = 10
    LOOKUP_RESULT = 11
    CREATE_PRODUCER = 20
    PRODUCER_CREATED = 21
    PUBLISH = 22
    PUBLISHED = 23
    PUBLISH_FAILED = 24
    CLOSE_PRODUCER = 25
    PRODUCER_CLOSED = 26
    SUBSCRIBE = 30
    SUBSCRIBED = 31
    FLOW = 32
    DELIVER = 33
    ACK = 34
    NACK = 35
    SEEK = 36
    UNSUBSCRIBE = 37
    CLOSE_CONSUMER = 38
    CONSUMER_CLOSED = 39
    ACTIVE_CHANGED = 40
    READ_FRAMES = 50
    FRAMES_READ = 51
    ADMIN = 60
    ADMIN_RESULT = 61


_BODIES: Final[dict[Command, type[Message]]] = {
    Command.CONNECT: pb.Connect,
    Command.CONNECTED: pb.Connected,
    Command.PING: pb.Ping,
    Command.PONG: pb.Pong,
    Command.ERROR: pb.Error,
    Command.DONE: pb.Done,
    Command.LOOKUP: pb.Lookup,
    Command.LOOKUP_RESULT: pb.LookupResult,
    Command.CREATE_PRODUCER: pb.CreateProducer,
    Command.PRODUCER_CREATED: pb.ProducerCreated,
    Command.PUBLISH: pb.Publish,
    Command.PUBLISHED: pb.Published,
    Command.PUBLISH_FAILED: pb.PublishFailed,
    Command.CLOSE_PRODUCER: pb.CloseProducer,
    Command.PRODUCER_CLOSED: pb.ProducerClosed,
    Command.SUBSCRIBE: pb.Subscribe,
    Command.SUBSCRIBED: pb.Subscribed,
    Command.FLOW: pb.Flow,
    Command.DELIVER: pb.Deliver,
    Command.ACK: pb.Ack,
    Command.NACK: pb.Nack,
    Command.SEEK: pb.Seek,
    Command.UNSUBSCRIBE: pb.Unsubscribe,
    Command.CLOSE_CONSUMER: pb.CloseConsumer,
    Command.CONSUMER_CLOSED: pb.ConsumerClosed,
    Command.ACTIVE_CHANGED: pb.ActiveChanged,
    Command.READ_FRAMES: pb.ReadFrames,
    Command.FRAMES_READ: pb.FramesRead,
    Command.ADMIN: pb.Admin,
    Command.ADMIN_RESULT: pb.AdminResult,
}


_DECODERS: Final = {int(kind): (kind, body.FromString) for kind, body in _BODIES.items()}


class Incoming(NamedTuple):
    """One received command. ``data`` is writable and owned by the receiver.

    A tuple, because one is created per command.
    """

    command: Command
    request: int
    body: Message
    data: memoryview


def pack(command: Command, request: int, body: Message, data: Sequence[Buffer] = ()) -> bytes:
    """The bytes of a command up to ``data``, which the caller sends after them."""
    control = body.SerializeToString()
    length = PREFIX.size - LENGTH_FIELD + len(control) + sum(map(len, data))
    return PREFIX.pack(length, command, 0, 0, request, len(control)) + control


def unpack(command: memoryview, control_limit: int = 1 << 30) -> Incoming:
    """Decode a complete command, including its length field. Raises ``ProtocolError``."""
    if len(command) < PREFIX.size:
        raise ProtocolError(f"a command needs at least {PREFIX.size} bytes, got {len(command)}")
    _, number, _, _, request, control_length = PREFIX.unpack_from(command)
    end = PREFIX.size + control_length
    if end > len(command):
        raise ProtocolError("a command's control body is longer than the command")
    if control_length > control_limit:
        raise ProtocolError(f"the control body exceeds the maximum of {control_limit} bytes")
    found = _DECODERS.get(number)
    if found is None:
        raise ProtocolError(f"unknown command number {number}")
    kind, decode = found
    try:
        body = decode(bytes(command[PREFIX.size : end]))
    except DecodeError:
        raise ProtocolError(
            f"the control body of a {kind.name} command cannot be decoded"
        ) from None
    return Incoming(kind, request, body, command[end:])


_KINDS: Final[list[tuple[type[SulinaError], pb.ErrorKind.ValueType]]] = [
    (StorageFull, pb.STORAGE_FULL),
    (Overloaded, pb.OVERLOADED),
    (Retriable, pb.RETRIABLE),
    (Fenced, pb.FENCED),
    (UnknownOutcome, pb.UNKNOWN_OUTCOME),
    (NotFound, pb.NOT_FOUND),
    (AlreadyExists, pb.ALREADY_EXISTS),
    (TooLarge, pb.TOO_LARGE),
    (ProtocolError, pb.PROTOCOL),
    (Refused, pb.REFUSED),
]


def error_body(error: SulinaError) -> pb.Error:
    """Encode an error. Kinds without a number are sent as an unknown outcome."""
    for kind, number in _KINDS:
        if isinstance(error, kind):
            return pb.Error(kind=number, message=str(error), sign_in=_sign_in(error))
    return pb.Error(kind=pb.UNKNOWN_OUTCOME, message=str(error))


def _sign_in(error: SulinaError) -> pb.SignIn | None:
    if not isinstance(error, SignInNeeded):
        return None
    return pb.SignIn(
        issuer=error.issuer, client_id=error.client_id, audience=error.audience, scope=error.scope
    )


def error_from(body: pb.Error) -> SulinaError:
    """Decode an error. An unknown kind becomes ``UnknownOutcome``, a move ``Retriable``."""
    if body.kind == pb.MOVED:
        return Retriable(body.message)
    if body.HasField("sign_in"):
        where = body.sign_in
        return SignInNeeded(
            body.message, where.issuer, where.client_id, where.audience, where.scope
        )
    for kind, number in _KINDS:
        if body.kind == number:
            return kind(body.message)
    return UnknownOutcome(body.message)
