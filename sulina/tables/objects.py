"""The objects of the lake, for tables: lists those of a topic and reads their footers.

Through Arrow's own file systems, which need no other package: a folder, or S3 with the credentials
that all AWS tools find.
"""

from __future__ import annotations

import os
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs as pafs

from sulina.errors import CorruptEntry, NotFound, Refused, Unavailable
from sulina.lake.decoder import TAIL, Footer, NeedMore, open_footer
from sulina.lake.generations import newest_objects
from sulina.lake.layout import (
    ROOT,
    ObjectName,
    RemovedMark,
    parse_key,
    parse_removed,
    topic_prefix,
)
from sulina.lake.removed import kept_objects
from sulina.lake.summary import ObjectSummary
from sulina.names import TopicName

_SECONDS: Final = 30.0
_FOOTERS_KEPT: Final = 1000
"""As many as a commit adds objects."""
_NO_TABLES: Final = ("az", "gs", "redis", "rediss", "tikv")
"""Stores that pyiceberg and DuckDB are not set up for, or cannot open."""
_ANY_REGION: Final = "us-east-1"


@dataclass(frozen=True, slots=True)
class LakePlace:
    """A lake's URL without its query, and how to connect."""

    url: str
    endpoint: str = ""
    region: str = ""

    @classmethod
    def parse(cls, text: str) -> LakePlace:
        """Parse a folder, or ``s3://bucket/prefix?endpoint=...&region=...``. Raises ``Refused``.

        Without an endpoint, AWS's variables for it count; Arrow does not know them itself.
        """
        place = urlsplit(text)
        if place.scheme in ("", "file"):
            folder = Path(unquote(place.path) if place.scheme else text).absolute()
            return cls(folder.as_uri())
        if place.scheme in _NO_TABLES:
            raise Refused(
                f"objects in {place.scheme}:// cannot be read as tables or with SQL: read them in "
                'Spark with spark.read.format("sulina"), or consume the topic'
            )
        if place.scheme != "s3" or not place.netloc:
            raise Refused(f"{text!r} is not a lake: write a folder, or s3://bucket/prefix")
        query = dict(parse_qsl(place.query))
        for name in query.keys() - {"endpoint", "region"}:
            raise Refused(f"unknown parameter {name} in {text!r}: use endpoint or region")
        endpoint = query.get("endpoint") or _variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
        region = query.get("region") or _variable("AWS_REGION", "AWS_DEFAULT_REGION")
        if endpoint and not region:
            region = _ANY_REGION  # without one, the real AWS would be asked where the bucket is
        return cls(f"s3://{place.netloc}{place.path}".rstrip("/"), endpoint, region)

    @property
    def is_folder(self) -> bool:
        return self.url.startswith("file:")


class Lake:
    """A bucket or folder with objects. Calls block and are thread-safe."""

    def __init__(self, place: LakePlace) -> None:
        self.place = place
        self._files: Any
        if place.is_folder:
            self._files, self._root = pafs.LocalFileSystem(), unquote(urlsplit(place.url).path)
        else:
            self._files, self._root = _s3(place), place.url.removeprefix("s3://")

    def url(self, name: ObjectName) -> str:
        """The URL under which engines find an object."""
        return f"{self.place.url}/{name.key}"

    def check(self) -> None:
        """Raises ``NotFound`` if the folder or bucket itself does not exist."""
        root = self._root if self.place.is_folder else self._root.split("/")[0]
        with self._errors():
            found = self._files.get_file_info(root).type
        if found == pafs.FileType.NotFound:
            raise NotFound(f"{self.place.url} does not exist: check where the brokers tier to")

    def topics(self) -> list[TopicName]:
        """The topics that have objects. Raises ``NotFound`` if there is no such lake."""
        found: list[TopicName] = []
        for space in self._folders(ROOT.rstrip("/")):
            found += (
                TopicName(_value(space), _value(topic)) for topic in self._folders(f"{ROOT}{space}")
            )
        return sorted(found)

    def objects(self, topic: TopicName) -> dict[int, list[ObjectName]]:
        """The objects of each partition of a topic, in the order of their offsets.

        Those that others replaced and that retention removed are left out. Raises ``NotFound`` if
        there is no such lake.
        """
        folder = topic_prefix(topic).rstrip("/")
        with self._errors():
            infos = self._files.get_file_info(
                pafs.FileSelector(f"{self._root}/{folder}", recursive=True, allow_not_found=True)
            )
        if not infos:
            self.topics()
        parts: defaultdict[int, list[ObjectName]] = defaultdict(list)
        marks: defaultdict[int, list[RemovedMark]] = defaultdict(list)
        for info in infos:
            key = info.path[len(self._root) + 1 :]
            if (found := parse_removed(key)) is not None:
                marks[found[0]].append(found[1])
                continue
            try:
                name = parse_key(key)
            except Refused:
                continue  # a folder, or a file that is being written
            parts[name.partition].append(name)
        return {
            part: newest_objects(kept_objects(names, marks[part], _itself), _itself)
            for part, names in sorted(parts.items())
        }

    def footer(self, name: ObjectName) -> Footer:
        """An object's footer. Raises ``NotFound``, ``CorruptEntry``, ``Refused``."""
        with self.open(name) as (_, footer):
            return footer

    @contextmanager
    def open(self, name: ObjectName) -> Iterator[tuple[Any, Footer]]:
        """An object as an Arrow file, and its footer. Raises as :meth:`footer` does.

        So do reads of the file within ``with``.
        """
        with self._errors(name.key), self._files.open_input_file(self._path(name)) as file:
            size = file.size()
            footer = open_footer(_tail(file, size, TAIL), size)
            if isinstance(footer, NeedMore):
                footer = open_footer(_tail(file, size, footer.length), size)
            if isinstance(footer, NeedMore) or footer.summary.first_offset != name.first_offset:
                raise CorruptEntry(f"{name.key} is damaged: its footer does not match its name")
            yield file, footer

    def _path(self, name: ObjectName) -> str:
        return f"{self._root}/{name.key}"

    def _folders(self, path: str) -> list[str]:
        with self._errors():
            infos = self._files.get_file_info(pafs.FileSelector(f"{self._root}/{path}"))
        return [info.base_name for info in infos if info.type == pafs.FileType.Directory]

    @contextmanager
    def _errors(self, key: str = "") -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            if key:
                raise NotFound(f"{key} no longer exists in {self.place.url}") from None
            raise NotFound(
                f"{self.place.url} has no folder {ROOT.rstrip('/')}: check the path, and that a "
                "ledger was tiered (sulina ledger offload)"
            ) from None
        except PermissionError as error:
            raise Refused(f"{self.place.url} cannot be read: {error}") from None
        except (OSError, pa.ArrowException) as error:
            raise Unavailable(f"{self.place.url} could not be read: {error}") from None


class LakeTopic:
    """One topic of a lake; keeps the footers of the objects that a commit needs again."""

    def __init__(self, lake: Lake, topic: TopicName) -> None:
        self._lake = lake
        self._topic = topic
        self._footers: OrderedDict[ObjectName, Footer] = OrderedDict()

    def list(self) -> dict[int, list[ObjectName]]:
        return self._lake.objects(self._topic)

    def summary(self, name: ObjectName) -> ObjectSummary:
        return self.footer(name).summary

    def footer(self, name: ObjectName) -> Footer:
        if name not in self._footers:
            self._footers[name] = self._lake.footer(name)
            while len(self._footers) > _FOOTERS_KEPT:
                self._footers.popitem(last=False)
        return self._footers[name]


def _s3(place: LakePlace) -> Any:
    scheme, _, host = place.endpoint.partition("://")
    more: dict[str, Any] = {"endpoint_override": host, "scheme": scheme} if host else {}
    if place.region:
        more["region"] = place.region
    return pafs.S3FileSystem(connect_timeout=_SECONDS, request_timeout=_SECONDS, **more)


def _variable(*names: str) -> str:
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def _tail(file: Any, size: int, length: int) -> bytes:
    start = max(size - length, 0)
    return bytes(file.read_at(size - start, start))


def _itself(name: ObjectName) -> ObjectName:
    return name


def _value(folder: str) -> str:
    return folder.partition("=")[2]
