"""The keys of the layout, and the encoding by which TiKV orders keys into regions."""

from __future__ import annotations

from typing import Final

from sulina.errors import Refused

_GROUP: Final = 8
_FULL: Final = 0xFF
NUMBER_BYTES: Final = 4
MAX_CHUNKS: Final = 1 << 32


class Layout:
    """Keys below one prefix. They begin with ``sulina``, so that they are none of TiDB's."""

    def __init__(self, prefix: str) -> None:
        base = b"sulina\0" + prefix.encode() + b"\0"
        self._base = base
        self._objects, self._uploads, self._chunks = base + b"o", base + b"u", base + b"c"

    def everything(self) -> tuple[bytes, bytes]:
        """The range of all keys."""
        return self._base, after_all(self._base)

    def object(self, key: str) -> bytes:
        """The key of an object's record. The order is that of the objects' keys."""
        return self._objects + key.encode("utf-8", "surrogatepass")

    def objects(self, prefix: str, after: str) -> tuple[bytes, bytes]:
        """The range of the records of objects below ``prefix`` that come after ``after``."""
        start = self.object(after) + b"\0" if after and after >= prefix else self.object(prefix)
        return start, self.object(prefix) + b"\xff"  # never part of UTF-8

    def object_key(self, key: bytes) -> str:
        """The object whose record this is."""
        return key[len(self._objects) :].decode("utf-8", "surrogatepass")

    def upload(self, token: bytes) -> bytes:
        """The key of an upload's record."""
        return self._uploads + token

    def uploads(self) -> tuple[bytes, bytes]:
        """The range of all uploads."""
        return self._uploads, after_all(self._uploads)

    def upload_token(self, key: bytes) -> bytes:
        """The upload whose record this is."""
        return key[len(self._uploads) :]

    def chunk(self, token: bytes, number: int) -> bytes:
        """The key of a chunk. Tokens are random, so objects are spread over the regions."""
        return self._chunks + token + number.to_bytes(NUMBER_BYTES, "big")

    def chunks(self, token: bytes) -> tuple[bytes, bytes]:
        """The range of all chunks of an upload."""
        return self._chunks + token, after_all(self._chunks + token)


def after_all(prefix: bytes) -> bytes:
    """The first key after all that start with ``prefix``, which has a byte other than 0xFF."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,))


def encoded(key: bytes) -> bytes:
    """``key`` as in the bounds of regions: groups of eight bytes, each with how many count."""
    groups = bytearray()
    for start in range(0, len(key) + 1, _GROUP):
        group = key[start : start + _GROUP]
        missing = _GROUP - len(group)
        groups += group + bytes(missing)
        groups.append(_FULL - missing)
    return bytes(groups)


def decoded(bound: bytes) -> bytes:
    """The key of an encoded bound. Raises ``Refused`` for bounds of another encoding."""
    key = bytearray()
    for start in range(0, len(bound), _GROUP + 1):
        group = bound[start : start + _GROUP + 1]
        missing = _FULL - group[-1]
        if len(group) != _GROUP + 1 or missing > _GROUP:
            break
        key += group[: _GROUP - missing]
        if missing:
            return bytes(key)
    raise Refused(
        "the regions of this TiKV cluster are not those of transactions: use a cluster that is not "
        "used as a raw key-value store"
    )
