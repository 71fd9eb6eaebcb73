"""The options of writing, read from Spark's texts and checked on the driver."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused
from sulina.names import TopicName, check_label

_KNOWN: Final = ("topic", "url", "producer", "compression", "tls", "token", "create")
_SPARKS_OWN: Final = ("checkpointlocation", "path", "queryname")
"""Which Spark hands on to sinks, too."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Where rows are published, and under whose name."""

    url: str
    topic: str
    producer: str
    """Begins the names of the tasks' producers; empty: a new one for each write."""
    compression: str = "zstd"
    tls: str = ""
    token: str = ""
    create: bool = True


def parse_write_options(options: Mapping[str, str], overwrite: bool) -> WriteOptions:
    """Read the options. Raises ``Refused`` with the one that is wrong and what it should be."""
    given = {name.lower(): str(value).strip() for name, value in options.items()}
    for name in given:
        if name not in _KNOWN + _SPARKS_OWN:
            raise Refused(
                f"there is no option {name!r} for writing: those known are {', '.join(_KNOWN)}"
            )
    if overwrite:
        raise Refused('a topic is never overwritten: publish with mode("append")')
    if not given.get("url"):
        raise Refused("option url is missing: where the brokers are, as sulina://broker:6655")
    if not given.get("topic"):
        raise Refused("option topic is missing: where to publish, as /default/results")
    create = given.get("create", "true").lower()
    if create not in ("true", "false"):
        raise Refused(f"create is true or false, not {create!r}")
    producer = given.get("producer", "")
    return WriteOptions(
        url=given["url"],
        topic=str(TopicName.parse(given["topic"])),
        producer=check_label("producer", producer) if producer else "",
        compression=given.get("compression", "zstd"),
        tls=given.get("tls", ""),
        token=given.get("token", ""),
        create=create == "true",
    )
