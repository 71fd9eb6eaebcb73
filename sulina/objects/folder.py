"""Objects as files under a folder, for one machine or a shared file system with hard links.

Keys are paths, so that other programs find the objects by name. A key cannot be a parent of another
one: ``a`` and ``a/b`` cannot both exist.
"""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterable, Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TypeVar

from sulina.errors import AlreadyExists, NotFound, Refused, StorageFull, SulinaError, Unavailable
from sulina.objects.store import ObjectInfo, check_key, check_length, check_range, ends_early
from sulina.objects.upload_id import new_upload_id
from sulina.runtime.object_files import ObjectExists, ObjectFiles
from sulina.runtime.seam import Randomness

_T = TypeVar("_T")


class FolderStore:
    """``ObjectStore`` over a folder. Files are read and written in threads."""

    def __init__(self, root: Path, random: Randomness) -> None:
        self._root = root
        self._files = ObjectFiles(root)
        self._random = random

    async def put(self, key: str, chunks: AsyncIterable[bytes]) -> ObjectInfo:
        check_key(key)
        token = new_upload_id(self._random)
        file = await self._do(key, lambda: self._files.create(key, token))
        try:
            async for chunk in chunks:
                await self._do(key, partial(file.write, chunk))
            return _info(key, await self._do(key, file.finish))
        finally:
            await self._do(key, file.discard)

    async def get(self, key: str, start: int, end: int) -> bytes:
        check_range(key, start, end)
        data, size = await self._do(key, lambda: self._files.read(key, start, end - start))
        if end > size:
            raise ends_early(key, end, size)
        return data

    async def tail(self, key: str, length: int) -> tuple[bytes, int]:
        check_length(key, length)
        return await self._do(key, lambda: self._files.read(key, -length, length))

    async def info(self, key: str) -> ObjectInfo | None:
        found = await self._do(key, lambda: self._files.stat(key))
        return None if found is None else _info(key, found)

    async def list(self, prefix: str, *, after: str = "", limit: int = 1000) -> list[ObjectInfo]:
        def first() -> list[ObjectInfo]:
            return [_info(*row) for row in islice(self._files.list(prefix, after), limit)]

        return await self._do(prefix, first)

    async def delete(self, key: str) -> None:
        await self._do(key, lambda: self._files.remove(key))

    async def abort_stale_uploads(self, prefix: str, older_than_seconds: float) -> int:
        return await self._do(
            prefix, lambda: self._files.remove_unfinished(prefix, older_than_seconds)
        )

    async def close(self) -> None:
        """Nothing to release."""

    async def _do(self, key: str, work: Callable[[], _T]) -> _T:
        """Run ``work`` in a thread and translate its errors.

        Cancellation waits for the thread too, because the file must not be used until it ends.
        """
        thread = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            await asyncio.wait((thread,))
            raise
        except OSError as error:
            raise self._translated(error, key) from error

    def _translated(self, error: OSError, key: str) -> SulinaError:
        if isinstance(error, ObjectExists):
            return AlreadyExists(f"the object {key} already exists")
        match error.errno:
            case errno.ENOENT | errno.EISDIR:
                return NotFound(f"the object {key} does not exist in {self._root}")
            case errno.ENOTDIR | errno.EEXIST:
                return Refused(
                    f"{key} cannot be a file in {self._root}: another object's key is a parent of "
                    "it, or it is a parent of another's; use another key"
                )
            case errno.ENAMETOOLONG:
                return Refused(
                    f"a part of {key!r} is longer than the maximum length of a file name"
                )
            case errno.ENOSPC | errno.EDQUOT:
                return StorageFull(f"no space left for {key} in {self._root}: free some")
            case errno.EACCES | errno.EPERM | errno.EROFS:
                return Refused(
                    f"cannot access {error.filename or self._root} ({error.strerror}): grant this "
                    "user access, or choose another folder; it must support hard links"
                )
        return Unavailable(f"accessing {key} in {self._root} failed: {error}")


def _info(key: str, found: os.stat_result) -> ObjectInfo:
    etag = f"{found.st_size:x}-{found.st_mtime_ns:x}"
    return ObjectInfo(key, found.st_size, etag, found.st_mtime_ns // 1000)
