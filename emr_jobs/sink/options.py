"""The options of the sink, parsed and checked on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused
from sulina.names import TopicName, check_label

_KNOWN: Final = ("topic", "url", "producer", "compression", "tls", "token", "create", "traceparent")
_SPARKS_OWN: Final = ("checkpointlocation", "path", "queryname")
"""Options of Spark itself, which it passes to sinks as well."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where rows are published, and with which producer name."""

    url: str
    topic: str
    producer: str
    """The prefix of the tasks' producer names; if empty, each write has a new one."""
    compression: str = "zstd"
    tls: str = ""
    token: str = ""
    create: bool = True
    trace_parent: str = ""
    """The W3C trace context that records carry unless they have their own."""


def parse_write_options(options: Mapping[str, str], overwrite: bool) -> WriteOptions:
    """Parse the options. Raises ``Refused`` for an invalid one."""
    given = {name.lower(): str(value).strip() for name, value in options.items()}
    for name in given:
        if name not in _KNOWN + _SPARKS_OWN:
            raise Refused(f"unknown option {name!r} for writing: choose from {', '.join(_KNOWN)}")
    if overwrite:
        raise Refused('a topic cannot be overwritten: publish with mode("append")')
    if not given.get("url"):
        raise Refused("option url is missing: set the broker URL, such as sulina://broker:6655")
    if not given.get("topic"):
        raise Refused("option topic is missing: set the topic to publish to, as /default/results")
    create = given.get("create", "true").lower()
    if create not in ("true", "false"):
        raise Refused(f"option create must be true or false, not {create!r}")
    producer = given.get("producer", "")
    return WriteOptions(
        url=given["url"],
        topic=str(TopicName.parse(given["topic"])),
        producer=check_label("producer", producer) if producer else "",
        compression=given.get("compression", "zstd"),
        tls=given.get("tls", ""),
        token=given.get("token", ""),
        create=create == "true",
        trace_parent=given.get("traceparent", ""),
    )
