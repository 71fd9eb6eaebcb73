"""A folder as a ``seam.Disk``.

Every call that may block runs in a worker thread: one for writes and syncs, so that they keep their
order, and a few for everything else, so that reads never wait for a sync. ``StorageFull`` and
``StorageFailed`` name the file and the folder. A lock file in the folder keeps other processes out
while the disk is open.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from sulina.errors import NotFound, Refused, StorageFailed, StorageFull
from sulina.runtime import stages
from sulina.runtime.seam import Buffer
from sulina.runtime.threads import WorkerThread

_T = TypeVar("_T")

_LOCK = "lock"
_TEMPORARY = ".tmp"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_TOO_MANY_FILES = {errno.EMFILE, errno.ENFILE}
_UNSUPPORTED = {errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.ENODEV}
_ZEROS = bytes(1 << 20)
_MAX_BUFFERS = min(1024, os.sysconf("SC_IOV_MAX"))


class RealDiskFile:
    """``seam.DiskFile`` over a file descriptor."""

    __slots__ = ("_disk", "_fd", "_name")

    def __init__(self, disk: RealDisk, name: str, fd: int) -> None:
        self._disk = disk
        self._name = name
        self._fd = fd

    @property
    def name(self) -> str:
        return self._name

    async def write(self, position: int, buffers: Sequence[Buffer], *, sync: bool) -> None:
        def work() -> None:
            if not (sync and _write_synced(self._fd, position, buffers)):
                _write_all(self._fd, position, buffers)
                if sync:
                    _sync_data(self._fd)

        await self._disk._writing(self._name, "write", _timed(work) if stages.traces else work)

    async def read(self, position: int, length: int) -> bytes:
        return await self._disk._other(
            self._name, "read", lambda: _read_all(self._fd, position, length)
        )

    async def size(self) -> int:
        return await self._disk._other(self._name, "stat", lambda: os.fstat(self._fd).st_size)

    async def reserve(self, length: int) -> None:
        await self._disk._writing(self._name, "reserve", lambda: _reserve(self._fd, length))

    async def prewrite(self, position: int, length: int) -> None:
        def work() -> None:
            whole, rest = divmod(length, len(_ZEROS))
            _write_all(self._fd, position, [*[_ZEROS] * whole, _ZEROS[:rest]])
            _sync_data(self._fd)

        await self._disk._other(self._name, "write", work)

    async def truncate(self, length: int) -> None:
        def work() -> None:
            os.ftruncate(self._fd, length)
            _sync_all(self._fd)

        await self._disk._other(self._name, "truncate", work)

    async def sync(self) -> None:
        await self._disk._writing(self._name, "sync", lambda: _sync_data(self._fd))

    async def close(self) -> None:
        # After the writes: one whose caller was cancelled still uses the descriptor.
        await self._disk._writing(self._name, "close", lambda: os.close(self._fd))


class RealDisk:
    """``seam.Disk`` over ``folder``, which is created if missing and locked until ``close``.

    The constructor blocks briefly (it creates and locks the folder). It raises ``Refused`` if
    another process uses the folder and ``StorageFailed`` if the folder cannot be used.
    """

    def __init__(self, folder: str | os.PathLike[str], *, readers: int = 4) -> None:
        self._folder = Path(folder).absolute()
        try:
            missing = not self._folder.is_dir()
            self._folder.mkdir(0o700, parents=True, exist_ok=True)
            if missing:
                _sync_folder(self._folder.parent)
            self._lock = self._take_lock()
        except OSError as error:
            raise self._translate(error, "open") from error
        for leftover in self._folder.glob("*" + _TEMPORARY):
            with contextlib.suppress(OSError):
                leftover.unlink()
        self._writer = WorkerThread("disk-write")
        self._others = ThreadPoolExecutor(readers, thread_name_prefix="disk-read")

    @property
    def folder(self) -> Path:
        return self._folder

    async def open(self, name: str, *, create: bool = False) -> RealDiskFile:
        path = self._path(name)

        def work() -> int:
            if not create:
                return os.open(path, os.O_RDWR)
            try:
                fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError:
                return os.open(path, os.O_RDWR)
            try:
                _sync_folder(self._folder)
            except OSError:
                os.close(fd)
                raise
            return fd

        return RealDiskFile(self, name, await self._other(name, "open", work))

    async def list(self) -> list[str]:
        def work() -> list[str]:
            with os.scandir(self._folder) as found:
                return sorted(
                    item.name
                    for item in found
                    if item.is_file() and item.name != _LOCK and not item.name.endswith(_TEMPORARY)
                )

        return await self._other("", "list", work)

    async def remove(self, name: str) -> None:
        path = self._path(name)

        def work() -> None:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                _sync_folder(self._folder)

        await self._other(name, "remove", work)

    async def replace(self, name: str, content: Buffer) -> None:
        path = self._path(name)
        temporary = path.with_name(name + _TEMPORARY)

        def work() -> None:
            try:
                fd = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
                try:
                    _write_all(fd, 0, [content])
                    _sync_all(fd)
                finally:
                    os.close(fd)
                temporary.replace(path)
                _sync_folder(self._folder)
            except OSError:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
                raise

        await self._other(name, "replace", work)

    async def close(self) -> None:
        """Wait for the queued work, end the threads and release the lock."""
        await asyncio.to_thread(self._writer.stop)
        await asyncio.to_thread(self._others.shutdown)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    async def _writing(self, name: str, action: str, work: Callable[[], _T]) -> _T:
        try:
            return await self._writer.run(work)
        except OSError as error:
            raise self._translate(error, action, name) from error

    async def _other(self, name: str, action: str, work: Callable[[], _T]) -> _T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._others, work)
        except OSError as error:
            raise self._translate(error, action, name) from error

    def _path(self, name: str) -> Path:
        reserved = name == _LOCK or name.endswith(_TEMPORARY)
        if not name or Path(name).name != name or reserved:
            raise Refused(f"invalid name for a file in {self._folder}: {name!r}")
        return self._folder / name

    def _take_lock(self) -> int:
        fd = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            raise Refused(
                f"another process uses the folder {self._folder}: "
                "stop it, or use another folder for this one"
            ) from None
        except OSError:
            os.close(fd)
            raise
        return fd

    def _translate(
        self, error: OSError, action: str, name: str = ""
    ) -> StorageFull | StorageFailed | NotFound:
        subject = f"{name} in the folder {self._folder}" if name else f"the folder {self._folder}"
        reason = error.strerror or str(error)
        if error.errno in _FULL:
            return StorageFull(f"cannot {action} {subject}: {reason}; free some space there")
        if error.errno in _TOO_MANY_FILES:
            # Not a fault of the disk: the same call succeeds once files or connections are closed.
            return StorageFull(
                f"cannot {action} {subject}: {reason}; close connections, or raise the limit of "
                "open files"
            )
        if isinstance(error, FileNotFoundError):
            return NotFound(f"cannot {action} {subject}: it does not exist")
        return StorageFailed(f"cannot {action} {subject}: {reason}; check the disk")


def _timed(work: Callable[[], None]) -> Callable[[], None]:
    def timed() -> None:
        began = stages.now_ns()
        work()
        stages.last_write = began, stages.now_ns()

    return timed


def _write_synced(fd: int, position: int, buffers: Sequence[Buffer]) -> bool:
    """Write and sync with one call, as a thread that returns from a call waits for its turn to run.

    False if the system can't, or has not written everything: then nothing counts as written.
    """
    global _CAN_WRITE_SYNCED
    if not _CAN_WRITE_SYNCED or len(buffers) > _MAX_BUFFERS:
        return False
    try:
        written = os.pwritev(fd, buffers, position, _WRITE_SYNCED)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        _CAN_WRITE_SYNCED = False
        return False
    return written == sum([memoryview(buffer).nbytes for buffer in buffers])


def _write_all(fd: int, position: int, buffers: Sequence[Buffer]) -> None:
    """Write all buffers, even if the system accepts only some bytes at a time."""
    rest: list[Buffer] = list(buffers)
    done = 0
    while done < len(rest):
        batch = rest[done : done + _MAX_BUFFERS]
        if _HAS_PWRITEV:
            written = os.pwritev(fd, batch, position)
        else:
            written = os.pwrite(fd, batch[0], position)
        position += written
        for buffer in batch:
            size = memoryview(buffer).nbytes
            if written < size:
                # The next round starts with the rest of a partially written buffer.
                rest[done] = memoryview(buffer).cast("B")[written:]
                break
            written -= size
            done += 1


def _read_all(fd: int, position: int, length: int) -> bytes:
    data = os.pread(fd, length, position)
    if len(data) == length or not data:
        return data
    parts = [data]
    got = len(data)
    while got < length and (data := os.pread(fd, length - got, position + got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def _reserve(fd: int, length: int) -> None:
    size = os.fstat(fd).st_size
    if size >= length:
        return
    try:
        os.posix_fallocate(fd, size, length - size)
    except AttributeError:
        os.ftruncate(fd, length)
    except OSError as error:
        # A file system may keep what it could allocate: release it.
        os.ftruncate(fd, size)
        if error.errno not in _UNSUPPORTED:
            raise
        os.ftruncate(fd, length)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY)
    try:
        _sync_all(fd)
    finally:
        os.close(fd)


_HAS_PWRITEV = hasattr(os, "pwritev")
_WRITE_SYNCED: int = getattr(os, "RWF_DSYNC", 0)
_CAN_WRITE_SYNCED = bool(_WRITE_SYNCED)
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)


def _sync_all(fd: int) -> None:
    if _FULL_SYNC is not None:
        # On macOS fsync leaves data in the drive's cache. Not all file systems support more.
        try:
            fcntl.fcntl(fd, _FULL_SYNC)
            return
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
    os.fsync(fd)


_sync_data: Callable[[int], None] = _sync_all if _FULL_SYNC is not None else os.fdatasync
