"""What a fuzzing target is, and the inputs that several targets share.

Input for a target with state is a sequence of calls: for each the number of a method, the length of
its request (two bytes, little-endian) and the request. Sequences can be joined, which is how the
history of a failure becomes one input.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

_CALL = struct.Struct("<BH")
_MOST_CALLS = 16
"""In a generated input: shorter ones are run more often."""
INTERESTING = (0, 1, 2, 7, 8, 0x7F, 0x80, 0xFF, 0xFFFF, 0x10000, (1 << 31) - 1, (1 << 32) - 1)
_NUMBERS = (
    *INTERESTING,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
    -1,
    -(1 << 31),
    -(1 << 63),
)
_TEXTS = (
    *("", "/", "/default/t", "/default/t-part-0", "/default/u", "default", "t", "p", "c", "s", "*"),
    *("a" * 300, "\N{DEGREE SIGN}", "\0", "-1", "9" * 30, "cluster", "/default/*", "../x", "a b"),
)
_LIKELY = {
    "topic": "/default/t",
    "topic_name": "/default/t",
    "base_name": "/default/u",
    "subscription": "s",
    "subscription_name": "s",
    "producer_name": "p",
    "consumer_name": "c",
    "namespace": "default",
    "subject": "orders",
    "schema_subject": "orders",
    "schema_type": "json_schema",
    "schema_definition": '{"type": "object"}',
    "compatibility_mode": "full",
    "dead_letter_topic": "/default/dead",
    "scope": "namespace",
    "resource_name": "default",
}


class Session(Protocol):
    """A target's state, used for one input after another."""

    def feed(self, data: bytes) -> None:
        """Run one input. Raises whatever must not be raised."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One decoder or door. ``open`` creates a session in its first state."""

    name: str
    summary: str
    seeds: Callable[[], list[bytes]]
    open: Callable[[], Session]
    messages: Sequence[type[Message] | None] = ()
    """The request of each method, if input is a sequence of calls."""
    separator: bytes = b""
    """Joins inputs that were run one after another."""
    inputs_per_session: int = 1
    max_bytes: int = 4096
    """Maximum length of generated inputs."""
    memory_mib: int = 64
    """How much memory one input may take."""

    def run(self, data: bytes) -> None:
        """Run one input on a new session. Raises whatever must not be raised."""
        session = self.open()
        try:
            session.feed(data)
        finally:
            session.close()


class Stateless:
    """A session of a function."""

    def __init__(self, feed: Callable[[bytes], None]) -> None:
        self.feed = feed

    def close(self) -> None: ...


def pack_call(method: int, request: bytes) -> bytes:
    return _CALL.pack(method, len(request)) + request


def calls(data: bytes, methods: int) -> Iterator[tuple[int, bytes]]:
    """The calls of an input: any bytes are a sequence of calls."""
    at = 0
    while at + _CALL.size <= len(data):
        method, length = _CALL.unpack_from(data, at)
        at += _CALL.size
        yield method % methods, data[at : at + length]
        at += length


def filled(kind: type[Message], depth: int = 3) -> Message:
    """A request with every field set to something likely."""
    message = kind()
    for field in message.DESCRIPTOR.fields:
        _set(message, field, _likely(field), depth)
    return message


def _likely(field: Any) -> Any:
    match field.cpp_type:
        case FieldDescriptor.CPPTYPE_STRING if field.type == FieldDescriptor.TYPE_STRING:
            return _LIKELY.get(field.name, "default" if field.name == "name" else "x")
        case FieldDescriptor.CPPTYPE_STRING:
            return _LIKELY.get(field.name, "x").encode()
        case FieldDescriptor.CPPTYPE_MESSAGE:
            return None
        case FieldDescriptor.CPPTYPE_BOOL:
            return True
        case _:
            return 1


def _set(message: Message, field: Any, value: Any, depth: int) -> None:
    """Set a field, or add to it; out of range or of another type: leave it as it is."""
    try:
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            if depth and not field.message_type.GetOptions().map_entry:
                inner = getattr(message, field.name)
                if field.is_repeated:
                    inner = inner.add()
                inner.MergeFrom(filled(type(inner), depth - 1))
        elif field.is_repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)
    except (TypeError, ValueError, OverflowError):
        return


def altered(target: Target, data: bytes, chance: Random, mutate: Callable[[bytes], bytes]) -> bytes:
    """Another sequence of calls: one is changed, added, repeated, moved or left out."""
    found = list(calls(data, len(target.messages)))[:_MOST_CALLS]
    at = chance.randrange(len(found) + 1)
    choice = chance.random()
    if choice < 0.15 or at == len(found):
        method = chance.randrange(len(target.messages))
        kind = target.messages[method]
        request = b"" if kind is None else filled(kind).SerializeToString()
        found.insert(at, (method, request))
    elif choice < 0.2:
        found.insert(chance.randrange(len(found)), found[at])
    elif choice < 0.25:
        found.insert(chance.randrange(len(found)), found.pop(at))
    elif choice < 0.3:
        del found[at]
    elif choice < 0.65 and (kind := target.messages[found[at][0]]) is not None:
        found[at] = found[at][0], _other_field(kind, found[at][1], chance)
    else:
        found[at] = found[at][0], mutate(found[at][1])
    return b"".join(pack_call(method, request[:65_535]) for method, request in found)


def _other_field(kind: type[Message], request: bytes, chance: Random) -> bytes:
    try:
        message = kind.FromString(request)
    except DecodeError:
        message = filled(kind)
    inner = message
    for _ in range(4):
        if not inner.DESCRIPTOR.fields:
            break
        field: Any = chance.choice(list(inner.DESCRIPTOR.fields))
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE and not field.is_repeated:
            inner = getattr(inner, field.name)
            continue
        text = chance.choice(_TEXTS)
        if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
            value: Any = text if field.type == FieldDescriptor.TYPE_STRING else text.encode()
        elif field.cpp_type in (FieldDescriptor.CPPTYPE_DOUBLE, FieldDescriptor.CPPTYPE_FLOAT):
            value = chance.choice((0.0, -1.0, 1e308, float("inf"), float("nan")))
        else:
            value = chance.choice(_NUMBERS)
        _set(inner, field, value, 2)
        break
    return message.SerializeToString()


def mutated(data: bytes, chance: Random, others: Sequence[bytes]) -> bytes:
    """``data`` with one to four changes, for runs without a fuzzer."""
    result = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(result) + 1)
        match chance.randrange(6):
            case 0 if at < len(result):
                result[at] ^= 1 << chance.randrange(8)
            case 1:
                result[at : at + 4] = chance.choice(INTERESTING).to_bytes(4, "little")
            case 2:
                result[at:at] = chance.randbytes(chance.randrange(20))
            case 3:
                del result[at : at + chance.randrange(1, 40)]
            case 4:
                other = chance.choice(others)
                result[at:] = other[chance.randrange(len(other) + 1) :]
            case _:
                del result[at:]
    return bytes(result)
