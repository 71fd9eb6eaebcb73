"""gRPC's messages in the data of a call: a byte for compression, four for the length, the rest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

import grpc

_PREFIX: Final = Struct(">BI")


class MessageTooLarge(Exception):
    """A message can't be taken: it is over the limit, or compressed."""

    def __init__(self, status: grpc.StatusCode, why: str) -> None:
        super().__init__(why)
        self.status = status


class Incoming:
    """The message that is arriving. Its buffer grows with what arrives, not with what is announced.

    ``most`` is the largest message.
    """

    __slots__ = ("_data", "_most")

    def __init__(self, most: int) -> None:
        self._data = bytearray()
        self._most = most

    @property
    def partial(self) -> bool:
        """Whether a message has begun and not ended."""
        return bool(self._data)

    @property
    def missing(self) -> int:
        """Bytes that have still to arrive, as far as it is known."""
        if len(self._data) < _PREFIX.size:
            return _PREFIX.size - len(self._data)
        return _PREFIX.size + int.from_bytes(self._data[1:5], "big") - len(self._data)

    def add(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete now. Raises ``MessageTooLarge``."""
        self._data += data
        while len(self._data) >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(self._data)
            if compressed:
                raise MessageTooLarge(
                    grpc.StatusCode.UNIMPLEMENTED,
                    "compressed messages are not accepted: send them uncompressed",
                )
            if length > self._most:
                raise MessageTooLarge(
                    grpc.StatusCode.INVALID_ARGUMENT,
                    f"a message of {length} bytes is over the limit of {self._most}",
                )
            end = _PREFIX.size + length
            if len(self._data) < end:
                return
            message = bytes(memoryview(self._data)[_PREFIX.size : end])
            del self._data[:end]
            yield message


def prefixed(messages: Sequence[bytes]) -> bytes:
    """The data that contains these messages."""
    if len(messages) == 1:
        return _PREFIX.pack(0, len(messages[0])) + messages[0]
    pack = _PREFIX.pack
    return b"".join([part for each in messages for part in (pack(0, len(each)), each)])
