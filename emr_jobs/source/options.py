"""The options of the data source, read from Spark's texts and checked before anything is opened.

Names are matched whatever their case, as Spark hands them on in lower case at times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import parse_qsl

from sulina.errors import Refused
from sulina.names import TopicName

END: Final = (1 << 63) - 1
"""Behind every offset and every time."""

BATCH_RECORDS: Final = 131_072
"""Of an Arrow batch: each costs Python about as much as a thousand records do."""
_MIB: Final = 1 << 20
_PARTITION_BYTES: Final = 128 * _MIB
"""What Spark's own readers of files have for a task."""
_KNOWN: Final = (
    "topic",
    "path",
    "bucket",
    "prefix",
    "endpoint",
    "region",
    "startOffset",
    "endOffset",
    "startTime",
    "endTime",
    "columns",
    "payload",
    "payloadSchema",
    "registry",
    "subject",
    "onBadPayload",
    "partitionBytes",
    "batchRecords",
    "maxRecordsPerTrigger",
    "gapSeconds",
    "clockSkewSeconds",
)


@dataclass(frozen=True, slots=True)
class Place:
    """Where the objects are: a URL or a folder, and how to reach it."""

    url: str
    endpoint: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class Topics:
    """Names and patterns of topics; a topic's name stands for all its partitions."""

    patterns: tuple[str, ...]

    def match(self, topic: TopicName) -> bool:
        """Whether a topic, or a partition's topic, is meant."""
        base = topic.partition_of
        names = (str(topic),) if base is None else (str(topic), str(base[0]))
        return any(fnmatchcase(name, each) for name in names for each in self.patterns)

    @property
    def exact(self) -> tuple[TopicName, ...] | None:
        """The names, if all of them are names and none a pattern."""
        if any(_is_pattern(each) for each in self.patterns):
            return None
        return tuple(TopicName.parse(each) for each in self.patterns)

    def __str__(self) -> str:
        return ", ".join(self.patterns)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Which records: offsets and publish times (microseconds) from, and to before."""

    start_offset: int = 0
    end_offset: int = END
    start_time: int = 0
    end_time: int = END

    @property
    def by_time(self) -> bool:
        """Whether records are chosen by their publish time."""
        return self.start_time > 0 or self.end_time < END


@dataclass(frozen=True, slots=True)
class Payload:
    """How payloads become the typed column ``value``; ``format`` is empty if they do not."""

    format: str = ""
    schema: str = ""
    registry: str = ""
    subject: str = ""
    fail: bool = True


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All that a read needs to know."""

    place: Place
    topics: Topics
    bounds: Bounds = Bounds()
    columns: tuple[str, ...] = ()
    payload: Payload = Payload()
    partition_bytes: int = _PARTITION_BYTES
    batch_records: int = BATCH_RECORDS
    max_records: int = 0
    """Of one batch of a stream; 0: no limit."""
    gap_seconds: int = 600
    """A gap before an object that is younger may be filled yet: a stream waits for it, and other
    reads end before it."""
    clock_skew: int | None = None
    """Seconds by which publish times may be off the order of offsets; None: by any time."""
    stream_start: str = "earliest"
    """The text of ``startOffset``, which a stream understands in more ways."""


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Read the options. Raises ``Refused`` with the one that is wrong and what it should be."""
    given = _Given(options)
    start_text = given.text("startOffset") or "earliest"
    bounds = Bounds(
        given.offset("startOffset", 0, streaming=True),
        given.offset("endOffset", END),
        given.time("startTime", 0),
        given.time("endTime", END),
    )
    if bounds.start_offset > bounds.end_offset or bounds.start_time > bounds.end_time:
        raise Refused("the start is behind the end: exchange the values of start... and end...")
    return ReadOptions(
        place=given.place(),
        topics=given.topics(),
        bounds=bounds,
        columns=tuple(each.strip() for each in given.text("columns").split(",") if each.strip()),
        payload=given.payload(),
        partition_bytes=given.count("partitionBytes", _PARTITION_BYTES),
        batch_records=given.count("batchRecords", BATCH_RECORDS),
        max_records=given.count("maxRecordsPerTrigger", 0),
        gap_seconds=0 if given.text("gapSeconds") == "0" else given.count("gapSeconds", 600),
        clock_skew=given.count("clockSkewSeconds", 0) or None,
        stream_start=start_text,
    )


def place_of(path: str, endpoint: str = "", region: str = "") -> Place:
    """A folder or URL; that of an S3 may say its endpoint and region, as ``--tier`` does.

    Raises ``Refused`` for what else stands behind a question mark there.
    """
    if not path.startswith(("s3://", "s3a://")):
        return Place(path.rstrip("/"), endpoint, region)
    url, _, query = path.partition("?")
    said = dict(parse_qsl(query, keep_blank_values=True))
    for name in said:
        if name not in ("endpoint", "region"):
            raise Refused(f"{name} is no option of {path!r}, which knows endpoint and region")
    return Place(
        url.rstrip("/"), endpoint or said.get("endpoint", ""), region or said.get("region", "")
    )


def time_us(text: str) -> int:
    """Microseconds since 1970 of an ISO 8601 time (without a zone: UTC) or of seconds since 1970.

    Raises ``Refused``.
    """
    try:
        return round(float(text) * 1_000_000)
    except ValueError:
        pass
    try:
        value = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(
            f"{text!r} is not a time: write 2026-05-01T12:00:00Z, or seconds since 1970"
        ) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=UTC)
    return round(value.timestamp() * 1_000_000)


class _Given:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        known = {name.lower() for name in _KNOWN}
        for name in self._values:
            if name not in known:
                raise Refused(f"there is no option {name!r}: those known are {', '.join(_KNOWN)}")

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), "").strip()

    def count(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not text.isdecimal() or not int(text):
            raise Refused(f"{name} is a number from 1 on, not {text!r}")
        return int(text)

    def offset(self, name: str, default: int, *, streaming: bool = False) -> int:
        text = self.text(name)
        if not text or text in ("earliest", "latest"):
            return default
        if streaming and text.startswith("{"):
            return default
        if not text.isdecimal():
            raise Refused(f"{name} is an offset, from 0 on, not {text!r}")
        return min(int(text), END)

    def time(self, name: str, default: int) -> int:
        text = self.text(name)
        return time_us(text) if text else default

    def place(self) -> Place:
        path, bucket = self.text("path"), self.text("bucket")
        if bool(path) == bool(bucket):
            raise Refused(
                "say where the objects are, by one of the options path (a folder or a URL such as "
                "s3://bucket/prefix) and bucket (with prefix, if there is one)"
            )
        if bucket:
            path = f"s3://{bucket}/{self.text('prefix')}"
        return place_of(path, self.text("endpoint"), self.text("region"))

    def topics(self) -> Topics:
        names = [each.strip() for each in self.text("topic").split(",")]
        patterns = tuple(each for each in names if each)
        if not patterns:
            raise Refused(
                "option topic is missing: name a topic (/default/orders), several divided by "
                "commas, or a pattern (/default/*)"
            )
        for each in patterns:
            if not _is_pattern(each):
                TopicName.parse(each)
        return Topics(patterns)

    def payload(self) -> Payload:
        format_, schema = self.text("payload").lower(), self.text("payloadSchema")
        registry, subject = self.text("registry").rstrip("/"), self.text("subject")
        bad = self.text("onBadPayload") or "fail"
        if format_ not in ("", "json", "avro"):
            raise Refused(f"payload is json or avro, not {format_!r}; leave it out for plain bytes")
        if bad not in ("fail", "null"):
            raise Refused(f"onBadPayload is fail or null, not {bad!r}")
        if schema and registry:
            raise Refused("give payloadSchema or registry, not both")
        if schema and not format_:
            raise Refused("payloadSchema needs the option payload: json or avro")
        if format_ and not (schema or registry):
            raise Refused(
                "typed payloads need their schema: give payloadSchema (its text), or registry "
                "(the URL of a broker's HTTP door, as http://broker:8080)"
            )
        return Payload(format_, schema, registry, subject, bad == "fail")


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")
