"""What Sulina asks of an object store: a few calls, each with a deadline, all safe to repeat.

An object is made whole or not at all, only if nobody made one of that name before, and never
changes. Keys are relative to the store's own prefix; they are ordered by their code points, which
is also the order of their UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterable
from dataclasses import dataclass
from typing import Final, Protocol

from sulina.errors import Refused

MAX_KEY_BYTES: Final = 768
"""In UTF-8. S3 and Google Cloud Storage take 1,024, of which the store's prefix needs some."""

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """An object, but for its bytes."""

    key: str
    size: int
    etag: str
    """Opaque; changes when the bytes change."""
    modified_us: int = 0


@dataclass(frozen=True, slots=True)
class ObjectSettings:
    """How a store goes about its calls."""

    part_bytes: int = 8 * _MIB
    """What is larger goes up in parts of this size. S3 takes no less than 5 MiB."""
    concurrency: int = 4
    """Parts of one object that are under way at once."""
    attempts: int = 7
    """For each request, with growing pauses of random length between them."""
    deadline_seconds: float = 30.0
    """For each attempt, from the connection to the last byte of the answer."""
    page_keys: int = 1000
    """Keys asked for in one request of a listing."""

    def __post_init__(self) -> None:
        if min(self.part_bytes, self.concurrency, self.attempts, self.page_keys) < 1:
            raise Refused("sizes and counts of an object store's settings must be at least 1")
        if self.deadline_seconds <= 0:
            raise Refused("the deadline of an object store's requests must be more than 0 seconds")


class ObjectStore(Protocol):
    """Objects under one prefix. Any number of calls may be under way at once.

    Every call may raise ``Unavailable`` when the store did not answer in all attempts, and
    ``Refused`` with the remedy when it does not let us in, or the bucket is not there.
    """

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        """Make an object of ``chunks``, which may have any size, only if there is none.

        It is durable and visible, whole, when this returns. Memory is bounded by the parts under
        way: ``chunks`` is asked for more only as they are gone.

        Raises ``AlreadyExists`` if there is one, which after a lost answer may be our own: where
        in doubt, read it. After ``Unavailable`` the object may be there, whole, or not. On any
        error, also one that ``chunks`` raises, nothing half-written is visible; parts that could
        not be taken back are left for ``abort_stale_uploads``.
        """
        ...

    async def get(self, key: str, start: int, end: int) -> bytes:
        """The bytes from ``start`` up to, and without, ``end``.

        Raises ``NotFound``, and ``Refused`` if the object ends before ``end``.
        """
        ...

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        """The last ``length`` bytes, or all there are, and the object's size, in one request.

        Raises ``NotFound``.
        """
        ...

    async def info(self, key: str) -> ObjectInfo | None:
        """The object's size and age, or None if there is none."""
        ...

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        """The first ``limit`` objects whose keys start with ``prefix`` and come after ``after``,
        in the order of their keys."""
        ...

    async def delete(self, key: str) -> None:
        """Remove an object; nothing happens if there is none."""
        ...

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        """Take back the parts of objects under ``prefix`` whose making was begun so long ago and
        never finished. Returns how many there were."""
        ...

    async def close(self) -> None:
        """Let go of connections. Calls under way fail."""
        ...


def check_key(key: str) -> str:
    """The key itself. Raises ``Refused`` if it can't name an object in every kind of store."""
    if not key or len(key.encode("utf-8", "surrogatepass")) > MAX_KEY_BYTES:
        raise Refused(f"the key of an object has 1 to {MAX_KEY_BYTES} bytes, not {key[:100]!r}")
    if any(part in ("", ".", "..") for part in key.split("/")):
        raise Refused(f"no part between the slashes of a key is empty, '.' or '..': {key!r}")
    if not key.isprintable():
        raise Refused(f"a key has printable characters only: {key!r}")
    return key


def check_range(key: str, start: int, end: int) -> None:
    """Raises ``Refused`` if it is no range of bytes."""
    if not 0 <= start <= end:
        raise Refused(f"{start} to {end} is no range of the bytes of {key}")


def check_length(key: str, length: int) -> None:
    """Raises ``Refused`` if it is no number of last bytes."""
    if length < 1:
        raise Refused(f"{length} is no length for the end of {key}")


def ends_early(key: str, end: int, size: int) -> Refused:
    """For a range that goes beyond the end."""
    return Refused(f"{key} has {size} bytes, so byte {end - 1} can't be read")
