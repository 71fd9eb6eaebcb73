"""Commands, masks and names."""

from __future__ import annotations

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from sulina import errors
from sulina.errors import ProtocolError, Refused, SulinaError
from sulina.names import MAX_NAME_LENGTH, TopicName, check_label, check_namespace
from sulina.wire import commands_pb2 as pb
from sulina.wire import selection
from sulina.wire.commands import (
    LENGTH_FIELD,
    PREFIX,
    Command,
    error_body,
    error_from,
    pack,
    unpack,
)
from sulina.wire.header import MAX_RECORDS
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


numbers = st.frozensets(st.integers(0, 200) | st.integers(0, 2_000), max_size=60)


def mask_of(chosen: frozenset[int] | set[int]) -> int:
    return sum(1 << number for number in chosen)


@given(numbers)
def test_indices_are_the_numbers_in_the_mask_rising(chosen: frozenset[int]) -> None:
    assert selection.indices(mask_of(chosen)) == sorted(chosen)


@given(numbers)
def test_ranges_are_the_longest_runs_rising(chosen: frozenset[int]) -> None:
    runs = list(selection.ranges(mask_of(chosen)))
    assert [n for first, last in runs for n in range(first, last + 1)] == sorted(chosen)
    assert all(first - 1 not in chosen and last + 1 not in chosen for first, last in runs)


@given(numbers)
def test_pick_takes_the_selected_values(chosen: frozenset[int]) -> None:
    values = [f"value {number}" for number in range(2_001)]
    assert selection.pick(values, mask_of(chosen)) == [values[n] for n in sorted(chosen)]


@given(numbers, st.integers(0, 70))
def test_lowest_keeps_the_first_so_many(chosen: frozenset[int], limit: int) -> None:
    assert selection.lowest(mask_of(chosen), limit) == mask_of(set(sorted(chosen)[:limit]))


@given(st.integers(0, 300), st.integers(-1, 300))
def test_whole_and_span_are_what_their_bounds_say(first: int, last: int) -> None:
    assert selection.whole(first) == mask_of(set(range(first)))
    assert selection.span(first, last) == mask_of(set(range(first, last + 1)))


@given(st.binary(max_size=300), st.frozensets(st.integers(0, 255)))
def test_slots_choose_the_records_that_have_them(slots: bytes, chosen: frozenset[int]) -> None:
    mask = selection.of_slots(slots, selection.slot_table(chosen))
    assert selection.indices(mask) == [i for i, slot in enumerate(slots) if slot in chosen]


@given(numbers)
def test_a_mask_comes_back_from_the_wire_as_it_was(chosen: frozenset[int]) -> None:
    mask = mask_of(chosen)
    assert selection.from_bytes(selection.to_bytes(mask)) == mask
    assert selection.from_bytes(selection.to_bytes(mask) + bytes(5)) == mask


def test_the_largest_mask_passes_and_a_longer_one_does_not() -> None:
    largest = selection.whole(MAX_RECORDS)
    assert selection.from_bytes(selection.to_bytes(largest)) == largest
    assert selection.indices(largest) == list(range(MAX_RECORDS))
    with pytest.raises(ProtocolError):
        selection.from_bytes(bytes(MAX_RECORDS // 8 + 1))


local = st.from_regex(r"[A-Za-z0-9_-]{1,60}", fullmatch=True)


@given(local, local)
def test_a_topic_name_reads_back_as_it_was_written(namespace: str, topic: str) -> None:
    name = TopicName.parse(f"/{namespace}/{topic}")
    assert (name.namespace, name.local) == (namespace, topic)
    assert str(name) == f"/{namespace}/{topic}"


@given(st.text(max_size=30))
def test_any_text_is_a_topic_name_or_refused(text: str) -> None:
    try:
        name = TopicName.parse(text)
    except Refused:
        return
    assert str(name) == text
    assert text.isprintable() and not any(map(str.isspace, text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "/",
        "//",
        "orders",
        "/orders",
        "default/orders",
        "/default/",
        "//orders",
        "/default/orders/",
        "/default/a/b",
        "/default/or ders",
        "/default/orders\n",
        "/default\n/orders",
        "/default/orders\0",
        "/default/../orders",
        "/default/or.ders",
    ],
)
def test_what_is_no_topic_name_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(Refused, match="/default/orders"):
        TopicName.parse(text)


def test_a_topic_name_has_a_longest_length() -> None:
    longest = "/default/" + "t" * (MAX_NAME_LENGTH - 9)
    assert str(TopicName.parse(longest)) == longest
    with pytest.raises(Refused, match="at most"):
        TopicName.parse(longest + "t")


@given(local, local, st.integers(0, 4095))
def test_a_partition_knows_its_topic(namespace: str, topic: str, number: int) -> None:
    name = TopicName(namespace, topic)
    partition = name.partition(number)
    assert partition.partition_of == (name, number)
    assert TopicName.parse(str(partition)) == partition


@pytest.mark.parametrize(
    "local", ["orders", "orders-part-", "orders-part-01", "orders-part--1", "-part-1", "a-part-1\n"]
)
def test_what_only_looks_like_a_partition_is_none(local: str) -> None:
    assert TopicName("default", local).partition_of is None


@pytest.mark.parametrize("name", ["", "a b", "a/b", "a\n", "\n", "a.b", "n" * 256])
def test_what_is_no_namespace_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="namespace"):
        check_namespace(name)


def test_a_label_may_be_any_printable_text_of_some_length() -> None:
    for name in ("a", "order service #3", "h\N{LATIN SMALL LETTER E WITH ACUTE}", "x" * 255):
        assert check_label("consumer", name) == name
    for name in ("", "a\n", "\x00", "\ud800", "x" * 256):
        with pytest.raises(Refused, match="consumer"):
            check_label("consumer", name)
