"""Objects in the memory of this process, for tests, simulation and evaluation."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterable, Callable

from sulina.errors import AlreadyExists, NotFound
from sulina.objects.store import ObjectInfo, check_key, check_length, check_range, ends_early


class MemoryStore:
    """``ObjectStore`` over a dictionary. It never fails, and survives ``close``.

    ``wall_us`` is the time that objects are stamped with.
    """

    def __init__(self, wall_us: Callable[[], int]) -> None:
        self._wall_us = wall_us
        self._objects: dict[str, tuple[ObjectInfo, bytes]] = {}

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        data = b"".join([chunk async for chunk in chunks])
        if key in self._objects:
            raise AlreadyExists(f"the object {key} already exists")
        etag = hashlib.blake2b(data, digest_size=16).hexdigest()
        info = ObjectInfo(key, len(data), etag, self._wall_us())
        self._objects[key] = (info, data)
        return info

    async def get(self, key: str, start: int, end: int) -> bytes:
        check_range(key, start, end)
        data = self._data(key)
        if end > len(data):
            raise ends_early(key, end, len(data))
        return data[start:end]

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        check_length(key, length)
        data = self._data(key)
        return data[max(len(data) - length, 0) :], len(data)

    async def info(self, key: str) -> ObjectInfo | None:
        found = self._objects.get(key)
        return None if found is None else found[0]

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        keys = sorted(key for key in self._objects if key.startswith(prefix) and key > after)
        return [self._objects[key][0] for key in keys[:limit]]

    async def delete(self, key: str) -> None:
        self._objects.pop(key, None)

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return 0  # nothing of an incomplete object is stored

    async def close(self) -> None:
        """Nothing to release."""

    def _data(self, key: str) -> bytes:
        try:
            return self._objects[key][1]
        except KeyError:
            raise NotFound(f"the object {key} does not exist") from None
