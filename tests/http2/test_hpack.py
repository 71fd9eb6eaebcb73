"""Header blocks: the examples of RFC 7541, what is remembered, what is refused."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker_containers.doors.http2 import huffman
from broker_containers.doors.http2.frames import ConnectionFault, ErrorCode
from broker_containers.doors.http2.hpack import Header, HeaderDecoder, HeaderEncoder

Headers = tuple[Header, ...]
NO = frozenset[Header]()


def decoder(list_bytes: int = 1 << 16) -> HeaderDecoder[Headers]:
    return HeaderDecoder(lambda headers: headers, list_bytes)


FIRST = (
    (":method", "GET"),
    (":scheme", "http"),
    (":path", "/"),
    (":authority", "www.example.com"),
)


@pytest.mark.parametrize(
    "blocks",
    [
        # RFC 7541, C.3 and C.4: three requests on one connection.
        (
            "828684410f7777772e6578616d706c652e636f6d",
            "828684be58086e6f2d6361636865",
            "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
        ),
        (
            "828684418cf1e3c2e5f23a6ba0ab90f4ff",
            "828684be5886a8eb10649cbf",
            "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
        ),
    ],
)
def test_the_examples_of_the_standard_are_read(blocks: tuple[str, str, str]) -> None:
    reading = decoder()
    first, second, third = (reading.decode(bytes.fromhex(block)) for block in blocks)
    assert first == FIRST
    assert second == (*FIRST, ("cache-control", "no-cache"))
    assert third == (
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    )


def test_a_repeated_block_is_read_once_and_its_meaning_changes_with_the_table() -> None:
    made: list[Headers] = []

    def make(headers: Headers) -> Headers:
        made.append(headers)
        return headers

    reading = HeaderDecoder(make, 1 << 16)
    reading.decode(bytes.fromhex("4001610162"))  # enters a: b
    newest = bytes([0x80 | 62])
    assert reading.decode(newest) is reading.decode(newest)
    assert made == [(("a", "b"),)] * 2
    reading.decode(bytes.fromhex("4001630164"))  # enters c: d, which moves a: b
    assert reading.decode(newest) == (("c", "d"),)
    assert reading.decode(bytes([0x80 | 63])) == (("a", "b"),)
    reading.decode(bytes([0x20]))  # a table of size 0 is empty
    with pytest.raises(ConnectionFault):
        reading.decode(newest)


def test_a_block_that_enters_something_is_never_taken_from_memory() -> None:
    reading = decoder()
    block = bytes.fromhex("4001610162")
    reading.decode(block)
    reading.decode(block)
    assert reading.decode(bytes([0x80 | 63])) == (("a", "b"),)  # entered twice


@pytest.mark.parametrize(
    "block",
    [
        "80",  # entry 0
        "be",  # an entry that does not exist
        "40",  # cut off
        "0005616263",  # a name that is cut off
        "823f",  # a number that is cut off
        "3fe21f",  # a table that is larger than allowed
        "8220",  # its size changes after a header
        "00816161",  # not the Huffman code: wrong padding
        "0084ffffffff00",  # the end of the string
        "7fffffffffff0f",  # a number that is too large
    ],
)
def test_what_is_not_a_header_block_is_refused(block: str) -> None:
    with pytest.raises(ConnectionFault) as refused:
        decoder().decode(bytes.fromhex(block))
    assert refused.value.code is ErrorCode.COMPRESSION_ERROR


def test_headers_that_are_large_when_decompressed_are_refused() -> None:
    reading = decoder(list_bytes=10_000)
    reading.decode(HeaderEncoder().block((("x", "y" * 3000),), frozenset({("x", "y" * 3000)})))
    with pytest.raises(ConnectionFault) as refused:
        reading.decode(bytes([0x80 | 62]) * 4)
    assert refused.value.code is ErrorCode.ENHANCE_YOUR_CALM


def test_repeated_headers_become_single_bytes_while_the_client_has_a_table() -> None:
    one, two = ("content-type", "application/grpc"), ("grpc-status", "0")
    writing, reading = HeaderEncoder(), decoder()
    repeated = frozenset((one, two))
    for headers in ((one,), (two,), (one,), (two,), (one, two)):
        assert reading.decode(writing.block(headers, repeated)) == headers
    assert len(writing.block((one, two), repeated)) == 2
    writing.limit_table(0)
    for headers in ((one,), (two,), (one, two)):
        assert reading.decode(writing.block(headers, repeated)) == headers
    assert len(writing.block((one,), repeated)) > 1


_TEXT = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=300)


@given(st.lists(st.tuples(_TEXT, _TEXT)), st.sets(st.integers(0, 5)))
def test_what_is_written_can_be_read(headers: list[Header], chosen: set[int]) -> None:
    repeated = frozenset(header for at, header in enumerate(headers) if at in chosen)
    writing, reading = HeaderEncoder(), decoder(1 << 20)
    for _ in range(2):
        assert reading.decode(writing.block(tuple(headers), repeated)) == tuple(headers)


@given(st.binary(max_size=200))
def test_any_block_is_read_or_refused(block: bytes) -> None:
    with suppress(ConnectionFault):
        decoder().decode(block)


@given(st.binary(max_size=300))
def test_any_text_in_the_huffman_code_is_read(text: bytes) -> None:
    codes = {symbol: (length, code) for (length, code), symbol in huffman._CODES.items()}
    bits = "".join(f"{codes[byte][1]:0{codes[byte][0]}b}" for byte in text)
    bits += "1" * (-len(bits) % 8)
    encoded = bytes(int(bits[at : at + 8], 2) for at in range(0, len(bits), 8))
    assert huffman.decode(encoded) == text
