"""Frames as a client writes and reads them, for tests that speak HTTP/2 by hand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from broker_containers.doors.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADER,
    HEADER_BYTES,
    HEADERS,
    PREFACE,
    SETTINGS,
    frame,
)
from broker_containers.doors.http2.hpack import Header, HeaderDecoder, HeaderEncoder

HELLO = PREFACE + frame(SETTINGS, 0, 0)


class Frame(NamedTuple):
    """One frame."""

    kind: int
    flags: int
    stream: int
    payload: bytes


def frames(data: bytes) -> Iterator[Frame]:
    """All frames in what a server sent, which must be whole."""
    at = 0
    while at < len(data):
        high, low, kind, flags, stream = HEADER.unpack_from(data, at)
        end = at + HEADER_BYTES + (high << 16 | low)
        assert end <= len(data), "a frame is cut off"
        yield Frame(kind, flags, stream, data[at + HEADER_BYTES : end])
        at = end


def head_of(path: str, *more: Header) -> tuple[Header, ...]:
    """The headers of a gRPC call."""
    return (
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "localhost"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
        *more,
    )


@lru_cache
def block(*headers: Header) -> bytes:
    """A header block that leaves the table as it is."""
    return HeaderEncoder().block(headers, frozenset())


def call_frames(stream: int, path: str, message: bytes, *more: Header) -> bytes:
    """A whole call."""
    data = b"\0" + len(message).to_bytes(4, "big") + message
    return frame(HEADERS, END_HEADERS, stream, block(*head_of(path, *more))) + frame(
        DATA, END_STREAM, stream, data
    )


class Responses:
    """What a server sent, by stream."""

    def __init__(self) -> None:
        self._decoder: HeaderDecoder[tuple[Header, ...]] = HeaderDecoder(lambda each: each, 1 << 20)
        self._rest = b""
        self.headers: dict[int, dict[str, str]] = {}
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.frames: list[Frame] = []

    def feed(self, data: bytes) -> None:
        """Take bytes, in any division."""
        data = self._rest + data
        at = 0
        while len(data) - at >= HEADER_BYTES:
            high, low, kind, flags, stream = HEADER.unpack_from(data, at)
            end = at + HEADER_BYTES + (high << 16 | low)
            if end > len(data):
                break
            self._take(Frame(kind, flags, stream, data[at + HEADER_BYTES : end]))
            at = end
        self._rest = data[at:]

    def _take(self, found: Frame) -> None:
        self.frames.append(found)
        if found.kind == HEADERS:
            headers = self._decoder.decode(found.payload)
            self.headers.setdefault(found.stream, {}).update(headers)
        elif found.kind == DATA:
            self.data[found.stream] = self.data.get(found.stream, b"") + found.payload
        if found.kind in (HEADERS, DATA) and found.flags & END_STREAM:
            self.ended.add(found.stream)

    def kinds(self) -> Sequence[int]:
        return [each.kind for each in self.frames]

    def status(self, stream: int) -> Any:
        """The gRPC status of a call; None before it has ended."""
        found = self.headers.get(stream, {}).get("grpc-status")
        return None if found is None else int(found)
