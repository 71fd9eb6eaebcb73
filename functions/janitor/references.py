"""Which ledgers a topic has, as the brokers say: what is not among them may be an orphan."""

from __future__ import annotations

from typing import Final

from functions.parts.cluster import Cluster
from functions.parts.partitions import PartitionName
from sulina.errors import NotFound

_TOPICS: Final = "/api/v1/topics"


def ledgers_of(cluster: Cluster, name: PartitionName) -> frozenset[int]:
    """The ledgers of a topic's partition; none if the topic does not exist.

    Raises ``Unavailable`` if that can't be said for certain.
    """
    topics = [f"{name.topic}-part-{name.partition}"]
    if name.partition == "0":
        topics.append(name.topic)  # it may be a topic without partitions
    found: set[int] = set()
    for topic in topics:
        try:
            answer = cluster.get(f"{_TOPICS}/{name.namespace}/{topic}/ledgers")
        except NotFound:
            continue
        found |= {int(each["id"]) for each in answer["ledgers"]}
    return frozenset(found)
