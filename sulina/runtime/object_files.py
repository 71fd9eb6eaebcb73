"""Files under a folder as objects, created atomically and never changed. All calls block.

An object is written to a temporary file in the same folder, synced, and hard-linked to its name,
which fails if the name exists. Names of temporary files start with a dot and end with
``.uploading``; they are not listed as objects.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

_ENDING: Final = ".uploading"
_TRIES: Final = 100


class ObjectExists(FileExistsError):
    """An object with that name already exists."""


class NewFile:
    """An object being written, until ``finish`` or ``discard``."""

    def __init__(self, target: Path, token: str) -> None:
        self._target = target
        self._place = target.with_name(f".{token}{_ENDING}")
        self._file = self._open()

    def write(self, data: bytes) -> None:
        """Append ``data``."""
        self._file.write(data)

    def finish(self) -> os.stat_result:
        """Make it durable under its name. Raises ``ObjectExists`` if that exists."""
        with self._file:
            self._file.flush()
            os.fsync(self._file.fileno())
        try:
            os.link(self._place, self._target)
        except FileExistsError:
            if self._target.is_file():
                raise ObjectExists from None
            raise
        self._place.unlink()
        _sync_folder(self._target.parent)
        return self._target.stat()

    def discard(self) -> None:
        """Delete the temporary file, if it still exists."""
        self._file.close()
        self._place.unlink(missing_ok=True)

    def _open(self) -> BinaryIO:
        for _ in range(_TRIES):
            self._target.parent.mkdir(parents=True, exist_ok=True)
            # Removing the last object of a folder also removes the folder, perhaps just now.
            with suppress(FileNotFoundError):
                return self._place.open("xb")
        raise FileNotFoundError(f"{self._target.parent} is repeatedly removed by others")


class ObjectFiles:
    """The objects under ``root``, which is created when needed."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def create(self, key: str, token: str) -> NewFile:
        """Begin an object; ``token`` must be unique."""
        return NewFile(self._root / key, token)

    def read(self, key: str, start: int, length: int) -> tuple[bytes, int]:
        """Up to ``length`` bytes from ``start`` (from the end if negative), and the size."""
        with (self._root / key).open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(size + start, 0) if start < 0 else start)
            return file.read(length), size

    def stat(self, key: str) -> os.stat_result | None:
        """The object's status, or None if it does not exist."""
        path = self._root / key
        with suppress(FileNotFoundError, NotADirectoryError):
            if path.is_file():
                return path.stat()
        return None

    def list(self, prefix: str, after: str) -> Iterator[tuple[str, os.stat_result]]:
        """The objects whose keys start with ``prefix`` and come after ``after``, in order."""
        return _list(str(self._root), "", prefix, after)

    def remove(self, key: str) -> None:
        """Remove an object, and folders that this leaves empty."""
        path = self._root / key
        with suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()
            _sync_folder(path.parent)
        for folder in path.parents:
            if folder == self._root:
                return
            try:
                folder.rmdir()
            except OSError:  # it is not empty
                return

    def remove_unfinished(self, prefix: str, older_than_seconds: float) -> int:
        """Remove temporary files under ``prefix`` not written to for ``older_than_seconds``."""
        before, removed = time.time() - older_than_seconds, 0
        for folder, _, names in os.walk(self._root):
            place = f"{os.path.relpath(folder, self._root)}/".removeprefix("./")
            # Temporary names lack the key's last part: match all that may have the prefix.
            beyond = prefix.removeprefix(place) if prefix.startswith(place) else "/"
            if not place.startswith(prefix) and "/" in beyond:
                continue
            for name in names:
                path = Path(folder) / name
                with suppress(FileNotFoundError):
                    if _is_unfinished(name) and path.stat().st_mtime <= before:
                        path.unlink()
                        removed += 1
        return removed


def _is_unfinished(name: str) -> bool:
    return name.startswith(".") and name.endswith(_ENDING)


def _list(folder: str, place: str, prefix: str, after: str) -> Iterator[tuple[str, os.stat_result]]:
    """The objects under ``folder``, whose keys start with ``place``."""
    try:
        with os.scandir(folder) as found:
            entries = [(entry.name + "/" * entry.is_dir(), entry) for entry in found]
    except (FileNotFoundError, NotADirectoryError):
        return
    # With a trailing slash, folder names sort in the order of their keys.
    for name, entry in sorted(entries, key=lambda each: each[0]):
        key = place + name
        if name.endswith("/"):
            inside = key.startswith(prefix) or prefix.startswith(key)
            if inside and not (key < after and not after.startswith(key)):
                yield from _list(entry.path, key, prefix, after)
        elif key.startswith(prefix) and key > after and not _is_unfinished(name):
            with suppress(FileNotFoundError):
                yield key, entry.stat()


def _sync_folder(folder: Path) -> None:
    """Make the names in a folder durable, if it still exists."""
    with suppress(FileNotFoundError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
