"""Where the objects of a topic are: one key for each closed ledger, laid out as a Hive table.

``ledgers/namespace=<ns>/topic=<t>/partition=<n>/<first offset>-<ledger id>.parquet``, both numbers
with 20 digits, so that a listing comes in the order of offsets, a reader skips by name what it
does not want, and engines that know Hive's layout see namespace, topic and partition as columns.
Keys are relative to the prefix of the object store.

A topic without partitions stands at ``partition=0``. Names of topics have letters, digits, ``_``
and ``-`` alone, none of which Hive's layout escapes, so they stand in keys as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from sulina.errors import Refused
from sulina.names import TopicName, check_namespace

ROOT: Final = "ledgers/"
SUFFIX: Final = ".parquet"
_MAX_NUMBER: Final = (1 << 63) - 1
_KEY: Final = re.compile(
    r"ledgers/namespace=(?P<namespace>[\w-]+)/topic=(?P<topic>[\w-]+)/"
    r"partition=(?P<partition>0|[1-9][0-9]{0,8})/"
    r"(?P<first_offset>[0-9]{20})-(?P<ledger>[0-9]{20})\.parquet",
)


@dataclass(frozen=True, slots=True, order=True)
class ObjectName:
    """What an object's key tells. Sorts as keys of one topic partition do.

    ``topic`` is the topic of which ``partition`` is one: a key does not tell the only partition of
    a topic from a topic without partitions. The object's own metadata does.
    """

    namespace: str
    topic: str
    partition: int
    first_offset: int
    ledger: int

    @property
    def key(self) -> str:
        """The key again."""
        folder = f"{_topic_folder(self.namespace, self.topic)}partition={self.partition}/"
        return f"{folder}{self.first_offset:020}-{self.ledger:020}{SUFFIX}"


def object_key(topic: TopicName, first_offset: int, ledger: int) -> str:
    """The key of the object that holds ``ledger``, whose first record has ``first_offset``.

    ``topic`` is what the ledger belongs to: a partition (``/ns/orders-part-3``) or a topic
    without partitions.
    """
    assert 0 <= first_offset <= _MAX_NUMBER and 0 <= ledger <= _MAX_NUMBER
    base, partition = topic.partition_of or (topic, 0)
    return ObjectName(base.namespace, base.local, partition, first_offset, ledger).key


def parse_key(key: str) -> ObjectName:
    """What ``key`` tells. Raises ``Refused`` for a key that :func:`object_key` does not make."""
    match = _KEY.fullmatch(key)
    if match is None:
        raise Refused(
            f"{key!r} is not the key of a ledger's object: those read {ROOT}namespace=<namespace>/"
            f"topic=<topic>/partition=<n>/<first offset>-<ledger>{SUFFIX}, both with 20 digits"
        )
    return ObjectName(
        match["namespace"],
        match["topic"],
        int(match["partition"]),
        int(match["first_offset"]),
        int(match["ledger"]),
    )


def topic_prefix(topic: TopicName) -> str:
    """What the keys of a topic's objects begin with, and no other topic's.

    Of a partition's name (``/ns/orders-part-3``): the keys of that partition. Of any other: the
    keys of the topic, all its partitions included.
    """
    found = topic.partition_of
    if found is None:
        return _topic_folder(topic.namespace, topic.local)
    base, partition = found
    return f"{_topic_folder(base.namespace, base.local)}partition={partition}/"


def namespace_prefix(namespace: str) -> str:
    """What the keys of all objects of a namespace begin with."""
    return f"{ROOT}namespace={check_namespace(namespace)}/"


def _topic_folder(namespace: str, topic: str) -> str:
    return f"{ROOT}namespace={namespace}/topic={topic}/"
