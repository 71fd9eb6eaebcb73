"""Objects of stores that only Sulina reads (Redis, TiKV), as a file system of fsspec."""

from __future__ import annotations

from typing import Any, Final

from fsspec import AbstractFileSystem
from fsspec.spec import AbstractBufferedFile

from sulina.errors import NotFound
from sulina.objects.blocking import blocking_store
from sulina.objects.store import ObjectInfo

ROOT: Final = "store"
"""The folder with all objects: paths are ``store/<key>``."""


class StoreFiles(AbstractFileSystem):  # type: ignore[misc]
    """Read-only. Every read is a request; calls block. Raises errors of ``sulina.errors``."""

    protocol = "sulina-objects"
    cachable = False

    def __init__(self, url: str) -> None:
        super().__init__()
        self._store = blocking_store(url)

    def find(self, path: str, *_: Any, **__: Any) -> dict[str, dict[str, Any]]:
        """All objects below a folder."""
        prefix = _key(path.rstrip("/") + "/")
        return {f"{ROOT}/{each.key}": _info(each) for each in self._store.list(prefix)}

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is anything below a folder. The root always exists."""
        return path == ROOT or self._store.any(_key(path.rstrip("/") + "/"))

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """An object's size and age. Raises ``FileNotFoundError``."""
        try:
            return _info(self._store.info(_key(path)))
        except NotFound:
            raise FileNotFoundError(path) from None

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Bytes of an object. Raises ``FileNotFoundError``."""
        try:
            size = self._store.info(_key(path)).size if end is None else end
            return self._store.get(_key(path), start or 0, size)
        except NotFound:
            raise FileNotFoundError(path) from None

    def _open(self, path: str, mode: str = "rb", **options: Any) -> _File:
        return _File(self, path, mode, **{**options, "cache_type": "none"})


class _File(AbstractBufferedFile):  # type: ignore[misc]
    def _fetch_range(self, start: int, end: int) -> bytes:
        return bytes(self.fs.cat_file(self.path, start, min(end, self.size)))


def _key(path: str) -> str:
    return path[len(ROOT) + 1 :]


def _info(found: ObjectInfo) -> dict[str, Any]:
    return {
        "name": f"{ROOT}/{found.key}",
        "size": found.size,
        "type": "file",
        "mtime": found.modified_us / 1e6,
    }
