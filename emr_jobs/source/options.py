"""The options of the data source, parsed and checked before anything is opened.

Names are case-insensitive, because Spark sometimes passes them in lower case.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Final
from urllib.parse import parse_qsl

from sulina.errors import Refused
from sulina.names import TopicName

END: Final = (1 << 63) - 1
"""Greater than every offset and time."""

BATCH_RECORDS: Final = 131_072
"""Records per Arrow batch; a batch costs Python about as much as a thousand records."""
_MIB: Final = 1 << 20
_PARTITION_BYTES: Final = 128 * _MIB
"""The same as for Spark's own file readers."""
_KNOWN: Final = (
    *("topic", "path", "bucket", "prefix", "endpoint", "region", "allowEmpty"),
    *("startOffset", "endOffset", "startTime", "endTime", "columns"),
    *("payload", "payloadSchema", "registry", "subject", "version", "onBadPayload"),
    *("live", "url", "tls", "token"),
    *("partitionBytes", "batchRecords", "maxRecordsPerTrigger", "gapSeconds", "clockSkewSeconds"),
)


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where objects or tables are stored: a URL or a folder, and how to connect."""

    url: str
    endpoint: str = ""
    region: str = ""


@dataclass(frozen=True, slots=True)
class TopicPatterns:
    """Names and patterns of topics; a topic's name includes all its partitions."""

    patterns: tuple[str, ...]

    def match(self, topic: TopicName) -> bool:
        """Whether a topic, or the topic of a partition, matches."""
        base = topic.partition_of
        names = (str(topic),) if base is None else (str(topic), str(base[0]))
        return any(fnmatchcase(name, each) for name in names for each in self.patterns)

    @property
    def exact(self) -> tuple[TopicName, ...] | None:
        """The topics, or None if there is a pattern among them."""
        if any(_is_pattern(each) for each in self.patterns):
            return None
        return tuple(TopicName.parse(each) for each in self.patterns)

    def __str__(self) -> str:
        return ", ".join(self.patterns)


@dataclass(frozen=True, slots=True)
class ReadBounds:
    """The offsets and publish times (microseconds) to read; ends are exclusive."""

    start_offset: int = 0
    end_offset: int = END
    start_time: int = 0
    end_time: int = END

    @property
    def by_time(self) -> bool:
        """Whether there is a bound on publish times."""
        return self.start_time > 0 or self.end_time < END


@dataclass(frozen=True, slots=True)
class PayloadOptions:
    """How payloads become typed columns; not at all without a format and a registry."""

    format: str = ""
    schema: str = ""
    registry: str = ""
    subject: str = ""
    version: int = 0
    """The version whose columns to read; 0 for those of all."""
    fail: bool = True
    token: str = field(default="", repr=False)
    """For the registry."""


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """The brokers of a live read."""

    url: str
    tls: str = ""
    token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of a read."""

    location: StoreLocation
    topics: TopicPatterns
    bounds: ReadBounds = ReadBounds()
    columns: tuple[str, ...] = ()
    payload: PayloadOptions = PayloadOptions()
    partition_bytes: int = _PARTITION_BYTES
    batch_records: int = BATCH_RECORDS
    max_records: int = 0
    """The maximum per batch of a stream; 0 means no limit."""
    gap_seconds: int = 600
    """A gap before an object younger than this may still be filled: streams wait, reads stop."""
    clock_skew: int | None = None
    """By how many seconds publish times may deviate from offset order; None means any."""
    allow_empty: bool = False
    """Whether topics may have no objects; otherwise they are an error, except for streams."""
    brokers: BrokerOptions | None = None
    """For a live read; None reads objects alone."""
    partitions: frozenset[int] | None = None
    """The partitions to read; None for all."""
    stream_start: str = "earliest"
    """The text of ``startOffset``, which has more forms for a stream."""

    def wants(self, partition: int) -> bool:
        """Whether to read a partition of a topic."""
        return self.partitions is None or partition in self.partitions


def parse_options(options: Mapping[str, str]) -> ReadOptions:
    """Parse the options. Raises ``Refused`` for an invalid one."""
    given = _OptionReader(options)
    start_text = given.text("startOffset") or "earliest"
    bounds = ReadBounds(
        given.offset("startOffset", 0, streaming=True),
        given.offset("endOffset", END),
        given.time("startTime", 0),
        given.time("endTime", END),
    )
    if bounds.start_offset > bounds.end_offset or bounds.start_time > bounds.end_time:
        raise Refused("the start is after the end: swap the values of the start and end options")
    return ReadOptions(
        location=given.location(),
        topics=given.topics(),
        bounds=bounds,
        columns=tuple(each.strip() for each in given.text("columns").split(",") if each.strip()),
        payload=given.payload(),
        partition_bytes=given.count("partitionBytes", _PARTITION_BYTES),
        batch_records=given.count("batchRecords", BATCH_RECORDS),
        max_records=given.count("maxRecordsPerTrigger", 0),
        gap_seconds=0 if given.text("gapSeconds") == "0" else given.count("gapSeconds", 600),
        clock_skew=given.count("clockSkewSeconds", 0) or None,
        allow_empty=given.flag("allowEmpty"),
        brokers=given.brokers(),
        stream_start=start_text,
    )


def parse_location(path: str, endpoint: str = "", region: str = "") -> StoreLocation:
    """Parse a folder or URL; an S3 URL may have ``?endpoint=`` and ``region=``, as for ``--tier``.

    Raises ``Refused`` for other query parameters.
    """
    if not path.startswith(("s3://", "s3a://")):
        return StoreLocation(path.rstrip("/"), endpoint, region)
    url, _, query = path.partition("?")
    query_values = dict(parse_qsl(query, keep_blank_values=True))
    for name in query_values:
        if name not in ("endpoint", "region"):
            raise Refused(f"unknown parameter {name} in {path!r}: use endpoint or region")
    return StoreLocation(
        url.rstrip("/"),
        endpoint or query_values.get("endpoint", ""),
        region or query_values.get("region", ""),
    )


def time_us(text: str) -> int:
    """Microseconds since 1970, from an ISO 8601 time (UTC by default) or from seconds since 1970.

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


class _OptionReader:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): str(value) for name, value in options.items()}
        known = {name.lower() for name in _KNOWN}
        for name in self._values:
            if name not in known:
                raise Refused(f"unknown option {name!r}: choose from {', '.join(_KNOWN)}")

    def text(self, name: str) -> str:
        return self._values.get(name.lower(), "").strip()

    def count(self, name: str, default: int) -> int:
        text = self.text(name)
        if not text:
            return default
        if not text.isdecimal() or not int(text):
            raise Refused(f"{name} must be a number, at least 1, not {text!r}")
        return int(text)

    def flag(self, name: str) -> bool:
        text = self.text(name).lower()
        if text not in ("", "true", "false"):
            raise Refused(f"{name} must be true or false, not {text!r}")
        return text == "true"

    def offset(self, name: str, default: int, *, streaming: bool = False) -> int:
        text = self.text(name)
        if not text or text in ("earliest", "latest"):
            return default
        if streaming and text.startswith("{"):
            return default
        if not text.isdecimal():
            raise Refused(f"{name} must be an offset, at least 0, not {text!r}")
        return min(int(text), END)

    def time(self, name: str, default: int) -> int:
        text = self.text(name)
        return time_us(text) if text else default

    def location(self) -> StoreLocation:
        path, bucket = self.text("path"), self.text("bucket")
        if bool(path) == bool(bucket):
            raise Refused(
                "set where the objects are with one of the options path (a folder or a URL such "
                "as s3://bucket/prefix) and bucket (optionally with prefix)"
            )
        if bucket:
            path = f"s3://{bucket}/{self.text('prefix')}"
        return parse_location(path, self.text("endpoint"), self.text("region"))

    def brokers(self) -> BrokerOptions | None:
        if not self.flag("live"):
            return None
        if not self.text("url"):
            raise Refused("a live read needs the option url, such as sulina://broker:6655")
        return BrokerOptions(self.text("url"), self.text("tls"), self.text("token"))

    def topics(self) -> TopicPatterns:
        names = [each.strip() for each in self.text("topic").split(",")]
        patterns = tuple(each for each in names if each)
        if not patterns:
            raise Refused(
                "option topic is missing: set a topic (/default/orders), a comma-separated list, "
                "or a pattern (/default/*)"
            )
        for each in patterns:
            if not _is_pattern(each):
                TopicName.parse(each)
        return TopicPatterns(patterns)

    def payload(self) -> PayloadOptions:
        format_, schema = self.text("payload").lower(), self.text("payloadSchema")
        registry, subject = self.text("registry").rstrip("/"), self.text("subject")
        bad = self.text("onBadPayload") or "fail"
        if format_ not in ("", "json", "avro", "protobuf"):
            raise Refused(
                f"payload must be json, avro or protobuf, not {format_!r}; leave it out to read "
                "bytes"
            )
        if bad not in ("fail", "null"):
            raise Refused(f"onBadPayload must be fail or null, not {bad!r}")
        if schema and registry:
            raise Refused("set payloadSchema or registry, not both")
        if schema and format_ not in ("json", "avro"):
            raise Refused(
                "payloadSchema needs the option payload, json or avro; Protobuf needs the option "
                "registry, where its text was compiled"
            )
        if format_ and not (schema or registry):
            raise Refused(
                "typed payloads need a schema: set payloadSchema (its text), or registry (a "
                "broker's HTTP URL such as http://broker:8080)"
            )
        version = self.count("version", 0)
        if version and not registry:
            raise Refused("version needs the option registry, which knows the versions")
        token = self.text("token") if registry else ""
        return PayloadOptions(format_, schema, registry, subject, version, bad == "fail", token)


def _is_pattern(text: str) -> bool:
    return any(mark in text for mark in "*?[")
