"""The bucket or folder that holds the objects, as Spark's Python processes see it. Read only.

Folders are read by Arrow itself. Every URL, ``s3://`` first of all, goes through fsspec (s3fs for
S3), so credentials come from the default chain of AWS. Arrow takes it from there: it opens
objects and reads byte ranges of them.
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

from emr_jobs.source.options import Place
from sulina.errors import NotFound, Refused, Unavailable
from sulina.lake.layout import ObjectName, parse_key

_FOOTER_BYTES: Final = 64 << 10
"""What is read from an object's end at first: the footer of a usual object is in it."""


@dataclass(frozen=True, slots=True)
class Found:
    """An object as a listing shows it."""

    name: ObjectName
    size: int
    modified_us: int = 0
    """When it was written, by the store's clock; 0 if that is not known."""

    @property
    def key(self) -> str:
        return self.name.key


class Storage:
    """Objects below one prefix. Calls block; each may be made from several threads at once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._fsspec: Any = None
        url = urlsplit(place.url)
        if url.scheme in ("", "file"):
            self._root = os.path.abspath(unquote(url.path) if url.scheme else place.url)
            self._files = pafs.LocalFileSystem()
        else:
            self._fsspec, self._root = open_url(place)
            self._files = pafs.PyFileSystem(pafs.FSSpecHandler(self._fsspec))

    @property
    def url(self) -> str:
        """As it was given."""
        return self._place.url

    @property
    def is_remote(self) -> bool:
        """Whether each read is a request, so that few large ones are better than many."""
        return self._fsspec is not None

    def list(self, prefix: str) -> list[Found]:
        """All objects whose keys begin with ``prefix``, in the order of their keys.

        What is not the object of a ledger is left out. Raises ``Unavailable``, and ``Refused``
        if the folder or bucket is not there.
        """
        try:
            with self._errors("listed"):
                rows = list(self._walk(prefix))
        except NotFound:
            rows = []
        found = []
        for path, size, modified in rows:
            try:
                name = parse_key(path[len(self._root) + 1 :])
            except Refused:
                continue
            found.append(Found(name, size, modified))
        found.sort(key=lambda each: each.name)
        return found

    def open(self, key: str) -> Any:
        """An object as a file of Arrow, for ranged reads; close it. Raises ``NotFound``."""
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
        """The object's address for other readers."""
        if self._fsspec is None:
            return f"{self._root}/{key}"
        return f"{scheme or urlsplit(self.url).scheme}://{self._root}/{key}"

    @contextmanager
    def _errors(self, what: str, key: str = "") -> Iterator[None]:
        """Tells the errors of file systems, and of AWS's library below them, as ours."""
        try:
            yield
        except FileNotFoundError:
            raise NotFound(
                f"{key} is gone from {self.url}: it was deleted since the objects were listed, "
                "as retention and the deletion of its topic do"
            ) from None
        except PermissionError as error:
            raise Refused(f"{self.url} can't be {what}: {error}") from None
        except Exception as error:
            if not isinstance(error, OSError) and not _is_botocores(error):
                raise
            raise Unavailable(f"{self.url} could not be {what}: {error}") from None

    def _walk(self, prefix: str) -> Iterator[tuple[str, int, int]]:
        base = f"{self._root}/{prefix}"
        if self._fsspec is not None:
            folder = base[: base.rindex("/")]
            for path, info in self._fsspec.find(folder, detail=True).items():
                if path.startswith(base):
                    yield path, int(info["size"]), _modified_us(info)
            return
        # Plain scandir: it is several times faster than the file system layers above it.
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
    """File systems name it differently, and some do not tell."""
    value = info.get("LastModified") or info.get("mtime") or info.get("created") or 0
    if isinstance(value, datetime):
        value = value.timestamp()
    return int(value * 1_000_000) if isinstance(value, int | float) else 0


def open_url(place: Place) -> tuple[Any, str]:
    """A file system of fsspec and the path in it. Raises ``Refused`` without the library."""
    url = urlsplit(place.url)
    options: dict[str, Any] = {}
    if url.scheme in ("s3", "s3a"):
        options = _s3_options(place)
    try:
        import fsspec

        files = fsspec.filesystem("s3" if url.scheme == "s3a" else url.scheme, **options)
    except (ImportError, ValueError) as error:
        raise Refused(
            f"{place.url} can't be opened: {error}. For s3:// install s3fs: "
            "pip install 'sulina[spark]'"
        ) from None
    return files, (url.netloc + unquote(url.path)).rstrip("/")


def _is_botocores(error: Exception) -> bool:
    """Its errors are no OSErrors. It need not be installed for folders, so go by the name."""
    return any(base.__module__.startswith("botocore.") for base in type(error).__mro__)


def _s3_options(place: Place) -> dict[str, Any]:
    endpoint = place.endpoint or os.environ.get("AWS_ENDPOINT_URL", "")
    client: dict[str, Any] = {"region_name": place.region} if place.region else {}
    config: dict[str, Any] = {"connect_timeout": 10, "read_timeout": 60}
    config["retries"] = {"total_max_attempts": 2, "mode": "standard"}  # s3fs tries again itself
    if endpoint:
        # Emulators have one host name for all buckets.
        config["s3"] = {"addressing_style": "path"}
    return {
        "endpoint_url": endpoint or None,
        "client_kwargs": client,
        "config_kwargs": config,
        "use_listings_cache": False,  # a stream lists again and again, to see what is new
        "default_cache_type": "none",  # Arrow asks for the ranges it wants
        "skip_instance_cache": True,  # workers are forked, and event loops do not survive that
    }
