"""Read-only access to the bucket or folder with the objects, from Spark's Python processes.

Arrow reads folders itself. URLs such as ``s3://`` go through fsspec (s3fs for S3), so credentials
come from AWS's default chain. Stores that only Sulina reads, such as Redis, go through the object
stores that tiering uses. Arrow opens the objects and reads byte ranges.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pafs

from emr_jobs.source.options import StoreLocation
from emr_jobs.source.store_urls import SCHEMES, without_password
from sulina.errors import NotFound, Refused, Unavailable
from sulina.lake.layout import ObjectName, parse_key

_FOOTER_BYTES: Final = 64 << 10
"""How much of an object's end is read first; it usually contains the footer."""


@dataclass(frozen=True, slots=True)
class LakeObject:
    """An object in a listing."""

    name: ObjectName
    size: int
    modified_us: int = 0
    """When it was written, by the store's clock; 0 if unknown."""

    @property
    def key(self) -> str:
        return self.name.key


class LakeStorage:
    """The objects under one prefix. Calls block and are thread-safe."""

    def __init__(self, location: StoreLocation) -> None:
        self._location = location
        self._fsspec: Any = None
        url = urlsplit(location.url)
        if url.scheme in ("", "file"):
            self._root = os.path.abspath(unquote(url.path) if url.scheme else location.url)
            self._files = pafs.LocalFileSystem()
        else:
            self._fsspec, self._root = open_url(location)
            self._files = pafs.PyFileSystem(pafs.FSSpecHandler(self._fsspec))

    @property
    def url(self) -> str:
        """The location's URL, without a password."""
        return without_password(self._location.url)

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request, so that few large reads are better than many small."""
        return self._fsspec is not None

    def list(self, prefix: str) -> list[LakeObject]:
        """All objects whose keys begin with ``prefix``, in the order of their keys.

        Objects that do not belong to a ledger are left out. Raises ``NotFound`` if the bucket or
        folder itself does not exist, ``Unavailable``, and ``Refused`` without permission.
        """
        with self._errors("listed"):
            try:
                rows = list(self._walk(prefix))
            except FileNotFoundError:
                rows = []
            if not rows and not self._root_exists():
                raise NotFound(
                    f"{self.url} does not exist: check the path, and for a bucket also its region "
                    "and endpoint"
                )
        found = []
        for path, size, modified in rows:
            try:
                name = parse_key(path[len(self._root) + 1 :])
            except Refused:
                continue
            found.append(LakeObject(name, size, modified))
        found.sort(key=lambda each: each.name)
        return found

    def has_folder(self, name: str) -> bool:
        """Whether there is anything in a folder of the lake. Raises as :meth:`list` does."""
        with self._errors("listed"):
            return self._exists(f"{self._root}/{name.rstrip('/')}")

    def open(self, key: str) -> Any:
        """Open an object as an Arrow file; the caller closes it. Raises ``NotFound``."""
        with self._errors("read", key):
            return self._files.open_input_file(f"{self._root}/{key}")

    def tail(self, key: str, size: int, length: int = _FOOTER_BYTES) -> bytes:
        """The last ``length`` bytes of an object of ``size`` bytes, or all of it."""
        start = max(size - length, 0)
        if self._fsspec is not None:
            with self._errors("read", key):
                return bytes(self._fsspec.cat_file(f"{self._root}/{key}", start=start, end=size))
        with self.open(key) as file:
            return bytes(file.read_at(size - start, start))

    def uri(self, key: str, scheme: str = "") -> str:
        """The object's URL for other readers."""
        if self._fsspec is None:
            return f"{self._root}/{key}"
        return f"{scheme or urlsplit(self.url).scheme}://{self._root}/{key}"

    @contextmanager
    def _errors(self, what: str, key: str = "") -> Iterator[None]:
        """Translates errors of file systems and of botocore."""
        try:
            yield
        except FileNotFoundError:
            raise NotFound(
                f"{key} no longer exists in {self.url}: retention or the deletion of its topic "
                "removed it after the objects were listed"
            ) from None
        except PermissionError as error:
            raise Refused(f"{self.url} cannot be {what}: {error}") from None
        except Exception as error:
            if not isinstance(error, OSError) and not _is_botocores(error):
                raise
            raise Unavailable(f"{self.url} could not be {what}: {error}") from None

    def _root_exists(self) -> bool:
        # A prefix of a bucket exists only while something is in it: ask for the bucket alone.
        return self._exists(self._root if self._fsspec is None else self._root.split("/")[0])

    def _exists(self, path: str) -> bool:
        found = self._fsspec.exists if self._fsspec is not None else os.path.isdir
        return bool(found(path))

    def _walk(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        base = f"{self._root}/{prefix}"
        if self._fsspec is not None:
            folder = base[: base.rindex("/")]
            for path, info in self._fsspec.find(folder, detail=True).items():
                if path.startswith(base):
                    yield path, int(info["size"]), _modified_us(info)
            return
        # scandir is several times faster than the file system layers of Arrow and fsspec.
        waiting = [base[: base.rindex("/")]]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir():
                        waiting.append(entry.path)
                    elif entry.path.startswith(base) and not entry.name.startswith("."):
                        stat = entry.stat()
                        yield entry.path, stat.st_size, stat.st_mtime_ns // 1000


def _modified_us(info: dict[str, Any]) -> int:
    """The modification time; file systems name it differently, and some do not have it."""
    value = info.get("LastModified") or info.get("mtime") or info.get("created") or 0
    if isinstance(value, datetime):
        value = value.timestamp()
    return int(value * 1_000_000) if isinstance(value, int | float) else 0


def _open_store(url: str) -> tuple[Any, str]:
    try:
        from emr_jobs.source.store_files import ROOT, StoreFiles  # needs fsspec
    except ImportError as error:
        raise Refused(
            f"{without_password(url)} cannot be opened: {error}. Install fsspec where Spark runs"
        ) from error
    return StoreFiles(url), ROOT


def open_url(location: StoreLocation) -> tuple[Any, str]:
    """The fsspec file system and the path in it. Raises ``Refused`` if its library is missing."""
    url = urlsplit(location.url)
    if url.scheme in SCHEMES:
        return _open_store(location.url)
    options: dict[str, Any] = {}
    if url.scheme in ("s3", "s3a"):
        options = _s3_options(location)
    try:
        import fsspec

        files = fsspec.filesystem("s3" if url.scheme == "s3a" else url.scheme, **options)
    except (ImportError, ValueError) as error:
        raise Refused(
            f"{location.url} cannot be opened: {error}. For s3:// install s3fs: "
            "pip install 'sulina[spark]'"
        ) from None
    return files, (url.netloc + unquote(url.path)).rstrip("/")


def _is_botocores(error: Exception) -> bool:
    """botocore's errors are not OSErrors, and it may not be installed: check by module name."""
    return any(base.__module__.startswith("botocore.") for base in type(error).__mro__)


def _s3_options(location: StoreLocation) -> dict[str, Any]:
    given = (os.environ.get(name) for name in ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"))
    endpoint = location.endpoint or next(filter(None, given), "")
    client: dict[str, Any] = {"region_name": location.region} if location.region else {}
    config: dict[str, Any] = {"connect_timeout": 10, "read_timeout": 60}
    config["retries"] = {"total_max_attempts": 2, "mode": "standard"}  # s3fs retries itself
    if endpoint:
        # Emulators use one host name for all buckets.
        config["s3"] = {"addressing_style": "path"}
    return {
        "endpoint_url": endpoint or None,
        "client_kwargs": client,
        "config_kwargs": config,
        "use_listings_cache": False,  # a stream lists repeatedly to find new objects
        "default_cache_type": "none",  # Arrow requests the ranges that it needs
        "skip_instance_cache": True,  # workers are forked, and event loops do not survive that
    }
