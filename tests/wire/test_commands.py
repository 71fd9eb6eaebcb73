"""Commands come out of their bytes as they went in, or give one ``ProtocolError``."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from sulina import errors
from sulina.errors import ProtocolError, SulinaError
from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import (
    LENGTH_FIELD,
    PREFIX,
    Command,
    error_body,
    error_from,
    pack,
    unpack,
)
from tests.wire.bodies import BODIES, EXAMPLES

requests = st.integers(0, (1 << 32) - 1)


def test_every_command_has_a_body_of_its_own() -> None:
    assert set(EXAMPLES) == set(Command)
    for command, body in EXAMPLES.items():
        assert unpack(memoryview(pack(command, 1, body))).body == body


@given(st.sampled_from(Command), requests, st.lists(st.binary(max_size=50), max_size=3))
def test_a_command_comes_out_as_it_went_in(
    command: Command, request: int, data: list[bytes]
) -> None:
    body = EXAMPLES[command]
    packed = pack(command, request, body, data) + b"".join(data)
    assert int.from_bytes(packed[:LENGTH_FIELD], "little") == len(packed) - LENGTH_FIELD
    incoming = unpack(memoryview(bytearray(packed)))
    assert (incoming.command, incoming.request) == (command, request)
    assert incoming.body == body
    assert type(incoming.body) is BODIES[command]
    assert bytes(incoming.data) == b"".join(data)
    assert not incoming.data.readonly


def test_command_numbers_are_those_they_always_were() -> None:
    assert " ".join(f"{command.name}={command.value}" for command in Command) == (
        "CONNECT=1 CONNECTED=2 PING=3 PONG=4 ERROR=5 DONE=6 LOOKUP=10 LOOKUP_RESULT=11 "
        "CREATE_PRODUCER=20 PRODUCER_CREATED=21 PUBLISH=22 PUBLISHED=23 PUBLISH_FAILED=24 "
        "CLOSE_PRODUCER=25 PRODUCER_CLOSED=26 SUBSCRIBE=30 SUBSCRIBED=31 FLOW=32 DELIVER=33 "
        "ACK=34 NACK=35 SEEK=36 UNSUBSCRIBE=37 CLOSE_CONSUMER=38 CONSUMER_CLOSED=39 "
        "ACTIVE_CHANGED=40 READ_FRAMES=50 FRAMES_READ=51 ADMIN=60 ADMIN_RESULT=61"
    )


def test_a_command_has_the_bytes_it_always_had() -> None:
    flow = pack(Command.FLOW, 7, pb.Flow(consumer=3, records=100, bytes=1 << 20))
    assert flow.hex(" ") == (
        "14 00 00 00 20 00 00 00 07 00 00 00 08 00 00 00 08 03 10 64 18 80 80 40"
    )


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_command_or_a_protocol_error(data: bytes) -> None:
    understood_or_protocol_error(data)


@given(st.sampled_from(Command), requests, st.binary(max_size=100))
def test_an_arbitrary_body_is_understood_or_a_protocol_error(
    command: Command, request: int, body: bytes
) -> None:
    length = PREFIX.size - LENGTH_FIELD + len(body)
    understood_or_protocol_error(PREFIX.pack(length, command, 0, 0, request, len(body)) + body)


def understood_or_protocol_error(data: bytes) -> None:
    try:
        incoming = unpack(memoryview(bytearray(data)))
    except ProtocolError:
        return
    assert isinstance(incoming.body, Message)


@pytest.mark.parametrize("command", Command)
def test_a_command_that_was_cut_is_a_protocol_error_or_has_less_data(command: Command) -> None:
    packed = pack(command, 1, EXAMPLES[command])
    for length in range(len(packed)):
        with pytest.raises(ProtocolError):
            unpack(memoryview(packed[:length]))


def test_text_that_is_not_utf_8_is_a_protocol_error() -> None:
    body = b"\x0a\x01\xff"
    packed = PREFIX.pack(12 + len(body), Command.LOOKUP, 0, 0, 1, len(body)) + body
    with pytest.raises(ProtocolError, match="LOOKUP"):
        unpack(memoryview(packed))


@pytest.mark.parametrize("number", [0, 7, 29, 62, 255])
def test_an_unknown_command_is_a_protocol_error(number: int) -> None:
    with pytest.raises(ProtocolError, match="unknown command"):
        unpack(memoryview(PREFIX.pack(12, number, 0, 0, 1, 0)))


ERRORS = [getattr(errors, name) for name in vars(errors) if name[0].isupper()]


@pytest.mark.parametrize("kind", ERRORS)
def test_an_error_keeps_its_text_and_what_a_caller_may_do_next(kind: type[SulinaError]) -> None:
    received = error_from(error_body(kind("the cause: the remedy")))
    assert str(received) == "the cause: the remedy"
    families: list[type[Exception]] = [
        errors.Retriable,
        errors.Fenced,
        errors.UnknownOutcome,
        errors.Refused,
    ]
    of_kind = [family for family in families if issubclass(kind, family)]
    assert [family for family in families if isinstance(received, family)] == (
        of_kind or [errors.UnknownOutcome]
    )


@pytest.mark.parametrize(
    "kind",
    [
        errors.StorageFull,
        errors.Overloaded,
        errors.NotFound,
        errors.AlreadyExists,
        errors.TooLarge,
        errors.ProtocolError,
    ],
)
def test_errors_that_callers_tell_apart_arrive_as_themselves(kind: type[SulinaError]) -> None:
    assert type(error_from(error_body(kind("why")))) is kind


def test_an_error_of_a_kind_not_known_here_is_an_unknown_outcome() -> None:
    unknown = pb.Error.FromString(b"\x08\x63\x12\x03why")
    assert type(error_from(unknown)) is errors.UnknownOutcome
    assert type(error_from(pb.Error(message="why"))) is errors.UnknownOutcome


def test_a_topic_that_moved_may_be_asked_for_again() -> None:
    assert type(error_from(pb.Error(kind=pb.MOVED, message="why"))) is errors.Retriable
