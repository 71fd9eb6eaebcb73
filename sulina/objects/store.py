"""The interface of an object store: a few calls, each with a timeout, all safe to repeat.

An object is created completely or not at all, only if none of that name exists, and never changes.
Keys are relative to the store's own prefix, and are ordered by their code points, which is also the
order of their UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Final, Protocol

from sulina.errors import Refused

MAX_KEY_BYTES: Final = 768
"""In UTF-8. S3 and Google Cloud Storage allow 1,024, including the store's prefix."""

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """The properties of an object."""

    key: str
    size: int
    etag: str
    """Opaque; changes when the bytes change."""
    modified_us: int = 0


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """Sizes, retries and timeouts of a store's requests."""

    part_bytes: int = 8 * _MIB
    """Larger objects are uploaded in parts of this size. S3 requires at least 5 MiB."""
    concurrency: int = 4
    """Parts of one object that are uploaded concurrently."""
    attempts: int = 7
    """Maximum attempts per request, with growing random pauses in between."""
    deadline_seconds: float = 30.0
    """Timeout of each attempt, from the connection to the last byte of the answer."""
    page_keys: int = 1000
    """Keys per request of a listing."""

    def __post_init__(self) -> None:
        if min(self.part_bytes, self.concurrency, self.attempts, self.page_keys) < 1:
            raise Refused("sizes and counts of an object store's settings must be at least 1")
        if self.deadline_seconds <= 0:
            raise Refused(
                "the timeout of an object store's requests must be greater than 0 seconds"
            )


class ObjectStore(Protocol):
    """Objects under one prefix. Any number of calls may run concurrently.

    Every call may raise ``Unavailable`` when all attempts failed, and ``Refused``, with the remedy,
    when the store denies access or the bucket does not exist.
    """

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        """Create an object from ``chunks`` of any size, unless it exists.

        It is complete, durable and visible when this returns. Memory is bounded by the parts in
        flight: ``chunks`` is read only as they are sent.

        Raises ``AlreadyExists`` if it exists; after a lost answer that may be ours: read it if in
        doubt. After ``Unavailable`` the object may exist, complete, or not. On any error,
        including one of ``chunks``, no partial object is visible; parts that could not be deleted
        are left for ``abort_stale_uploads``.
        """
        ...

    async def get(self, key: str, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to but not including ``end``.

        Raises ``NotFound``, and ``Refused`` if the object ends before ``end``.
        """
        ...

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last ``length`` bytes (or all, if fewer) and the object's size, in one request.

        Raises ``NotFound``.
        """
        ...

    async def info(self, key: str) -> ObjectInfo | None:
        """The object's size and age, or None if it does not exist."""
        ...

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        """The first ``limit`` objects whose keys start with ``prefix`` and come after ``after``,
        in the order of their keys."""
        ...

    async def delete(self, key: str) -> None:
        """Delete an object; does nothing if it does not exist."""
        ...

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        """Delete the parts of unfinished uploads below ``prefix`` that are at least this old.

        Returns how many uploads there were.
        """
        ...

    async def close(self) -> None:
        """Close connections. Calls in flight fail."""
        ...


def check_key(key: str) -> str:
    """Return ``key`` if it is valid in every kind of store; otherwise raise ``Refused``."""
    if not key or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise Refused(f"an object key must have 1 to {MAX_KEY_BYTES} bytes: {key[:100]!r}")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise Refused(f"the parts of an object key must not be empty, '.' or '..': {key!r}")
    if not key.isprintable():
        raise Refused(f"an object key must have printable characters only: {key!r}")
    return key


def check_range(key: str, start: int, end: int) -> None:
    """Raises ``Refused`` for an invalid byte range."""
    if not 0 <= start <= end:
        raise Refused(f"{start} to {end} is not a valid byte range of {key}")


def check_length(key: str, length: int) -> None:
    """Raises ``Refused`` for an invalid number of last bytes."""
    if length < 1:
        raise Refused(f"invalid number of last bytes of {key}: {length}")


def ends_early(key: str, end: int, size: int) -> Refused:
    """The error for a range beyond the end."""
    return Refused(f"{key} has only {size} bytes: byte {end - 1} cannot be read")
