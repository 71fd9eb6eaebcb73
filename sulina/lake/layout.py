"""The keys of objects: one for each closed ledger, in the layout of a Hive table.

``ledgers/namespace=<ns>/topic=<t>/partition=<n>/<first offset>-<ledger id>.parquet``, both numbers
with 20 digits: listings are in the order of offsets, readers can skip objects by name, and engines
that support Hive's layout see namespace, topic and partition as columns. Keys are relative to the
prefix of the object store.

An object that replaces those of several ledgers has its last offset and its generation in its name,
too: ``<first offset>-<ledger id>-<last offset>-<generation>.parquet``, the generation with 10
digits. ``sulina.lake.generations`` says which objects of a listing count, and
``sulina.lake.removed`` which of them retention has removed.

A topic without partitions has ``partition=0``. Topic names contain only letters, digits, ``_`` and
``-``, none of which Hive's layout escapes, so keys contain them unchanged.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused
from sulina.names import TopicName, check_namespace

ROOT: Final = "ledgers/"
SUFFIX: Final = ".parquet"
_NOTICE: Final = "0-objects-are-being-replaced-read-with-iceberg-or-the-sulina-source-"
_MAX_NUMBER: Final = (1 << 63) - 1
_KEY: Final = re.compile(
    r"ledgers/namespace=(?P<namespace>[\w-]+)/topic=(?P<topic>[\w-]+)/"
    r"partition=(?P<partition>0|[1-9][0-9]{0,8})/"
    r"(?P<first_offset>[0-9]{20})-(?P<ledger>[0-9]{20})"
    r"(-(?P<last_offset>[0-9]{20})-(?P<generation>[0-9]{10}))?\.parquet",
)

_REMOVED: Final = "_removed-"
_REMOVED_KEY: Final = re.compile(
    r"ledgers/namespace=[\w-]+/topic=[\w-]+/partition=(?P<partition>0|[1-9][0-9]{0,8})/"
    r"_removed-(?P<number>[0-9]{20})-(?P<ledger>[0-9]{20})"
)


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """The parts of an object's key. Sorts by topic partition, then by first offset.

    ``topic`` is the name without the partition: a key does not distinguish a topic's partition 0
    from a topic without partitions. The object's metadata does.
    """

    namespace: str
    topic: str
    partition: int
    first_offset: int
    ledger: int
    generation: int = 0
    """0 for the object of a ledger; that of an object which replaces others is higher."""
    last_offset: int = -1
    """Known from the name only if it replaces others, else -1."""

    @property
    def key(self) -> str:
        folder = f"{_topic_folder(self.namespace, self.topic)}partition={self.partition}/"
        range_ = f"-{self.last_offset:020}-{self.generation:010}" if self.generation else ""
        return f"{folder}{self.first_offset:020}-{self.ledger:020}{range_}{SUFFIX}"


def object_key(
    topic: TopicName, first_offset: int, ledger: int, generation: int = 0, last_offset: int = -1
) -> str:
    """The key of the object of ``ledger``, whose first record has ``first_offset``.

    ``topic`` is the ledger's partition (``/ns/orders-part-3``) or topic without partitions.
    """
    assert 0 <= first_offset <= _MAX_NUMBER and 0 <= ledger <= _MAX_NUMBER
    assert not generation or first_offset <= last_offset <= _MAX_NUMBER
    base, partition = topic.partition_of or (topic, 0)
    place = base.namespace, base.local, partition
    return ObjectName(*place, first_offset, ledger, generation, last_offset).key


def parse_key(key: str) -> ObjectName:
    """Parse a key. Raises ``Refused`` if it does not have the format of :func:`object_key`."""
    match = _KEY.fullmatch(key)
    if match is None or match["generation"] == "0" * 10:
        raise Refused(
            f"{key!r} is not the key of a ledger's object: the format is {ROOT}namespace=<name>/"
            f"topic=<topic>/partition=<n>/<first offset>-<ledger>{SUFFIX}, both with 20 digits"
        )
    return ObjectName(
        match["namespace"],
        match["topic"],
        int(match["partition"]),
        int(match["first_offset"]),
        int(match["ledger"]),
        int(match["generation"] or 0),
        int(match["last_offset"] or -1),
    )


def topic_prefix(topic: TopicName) -> str:
    """The prefix that only the keys of this topic's objects have.

    For a partition's name (``/ns/orders-part-3``), the keys of that partition; otherwise the keys
    of the topic and all its partitions.
    """
    found = topic.partition_of
    if found is None:
        return _topic_folder(topic.namespace, topic.local)
    base, partition = found
    return f"{_topic_folder(base.namespace, base.local)}partition={partition}/"


def namespace_prefix(namespace: str) -> str:
    """The prefix of the keys of all objects of a namespace."""
    return f"{ROOT}namespace={check_namespace(namespace)}/"


def _topic_folder(namespace: str, topic: str) -> str:
    return f"{ROOT}namespace={namespace}/topic={topic}/"


@dataclass(frozen=True, slots=True, order=True)
class RemovedMark:
    """Says that retention removed the oldest ledgers of a topic, whose objects still exist.

    Of several, the one with the highest number counts; see ``sulina.lake.removed``.
    """

    number: int
    ledger: int
    """Objects of ledgers up to this one are removed."""


def removed_key(topic: TopicName, mark: RemovedMark) -> str:
    """The key of a mark. Its name begins with ``_``, so plain readers of the folder skip it."""
    base, partition = topic.partition_of or (topic, 0)
    folder = f"{_topic_folder(base.namespace, base.local)}partition={partition}/"
    return f"{folder}{_REMOVED}{mark.number:020}-{mark.ledger:020}"


def parse_removed(key: str) -> tuple[int, RemovedMark] | None:
    """The partition and the mark of a key; None if it is not that of a mark."""
    match = _REMOVED_KEY.fullmatch(key)
    if match is None:
        return None
    return int(match["partition"]), RemovedMark(int(match["number"]), int(match["ledger"]))


def notice_key(topic: TopicName, ledger: int, generation: int) -> str:
    """The key of the notice that tells plain readers of a listing to stop.

    It exists before the object of a generation is written, until what that replaced is deleted: a
    reader that does not know generations would count records twice. It looks like the first Parquet
    file of the folder, and is none: such a reader fails, and shows this name.
    """
    base, partition = topic.partition_of or (topic, 0)
    folder = f"{_topic_folder(base.namespace, base.local)}partition={partition}/"
    return f"{folder}{_NOTICE}{ledger}-{generation}{SUFFIX}"


def is_notice(key: str) -> bool:
    """Whether a key is that of a notice, or of a mark of removed ledgers."""
    return key.rpartition("/")[2].startswith((_NOTICE, _REMOVED))
