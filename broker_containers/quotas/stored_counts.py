"""Counts the topics, partitions and subscriptions of each namespace, in memory.

The counts follow the metadata through a watch, and include at once what this broker is creating.
So they are exact for what one broker creates. Brokers of a cluster learn of each other's creations
within milliseconds, and may together exceed a limit by what they create in that time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from sulina.metadata.keys import record, subscriptions, topics
from sulina.metadata.keys.path import TOPICS, name_of, part
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import KeyValue
from sulina.names import TopicName
from sulina.runtime.seam import Clock

_UNSEEN_SECONDS: Final = 10.0
"""How long a creation counts although the watch has not reported it."""


class Stored(StrEnum):
    """What is counted, by the name of its limit."""

    TOPICS = "topics"
    PARTITIONS = "partitions"
    SUBSCRIPTIONS = "subscriptions"


class StoredCounts:
    """By the part of each key after ``/topics/``; call ``changed`` for every change there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Stored] = {}
        self._unseen: dict[str, float] = {}
        """Creations of this broker that the watch has not reported, and until when they count."""
        self._counts: Counter[tuple[str, Stored]] = Counter()

    def use(self, namespace: str, kind: Stored) -> int:
        """How many of a kind a namespace has."""
        return self._counts[part(namespace), kind]

    def namespaces(self) -> list[str]:
        """The namespaces with topics."""
        return [name_of(each) for (each, _), count in self._counts.items() if count]

    def changed(self, rest: str, kind: Stored | None) -> None:
        """A key was created or changed, or with None deleted."""
        self._unseen.pop(rest, None)
        if self._known.get(rest) is not kind:
            self._set(rest, kind)

    def missing(self, wanted: Mapping[str, Stored]) -> Counter[Stored]:
        """How many of ``wanted`` do not exist yet, by kind."""
        now = self._clock.now()
        while self._unseen and next(iter(self._unseen.values())) < now:
            self._set(next(iter(self._unseen)), None)
        return Counter(kind for rest, kind in wanted.items() if rest not in self._known)

    @contextmanager
    def creating(self, wanted: Mapping[str, Stored]) -> Iterator[None]:
        """Count ``wanted`` as existing, unless the block raises."""
        new = {rest: kind for rest, kind in wanted.items() if rest not in self._known}
        until = self._clock.now() + _UNSEEN_SECONDS
        for rest, kind in new.items():
            self._set(rest, kind)
            self._unseen[rest] = until
        try:
            yield
        except BaseException:
            for rest in new.keys() & self._unseen.keys():
                self._set(rest, None)
            raise

    def _set(self, rest: str, kind: Stored | None) -> None:
        namespace = rest.partition("/")[0]
        self._unseen.pop(rest, None)
        before = self._known.pop(rest, None)
        if before is not None:
            self._counts[namespace, before] -= 1
        if kind is not None:
            self._known[rest] = kind
            self._counts[namespace, kind] += 1


def topic_keys(topic: TopicName, partitions: int) -> dict[str, Stored]:
    """What creating a topic stores."""
    parts = (topic.partition(number) for number in range(partitions))
    return {_rest(topics.key(topic)): Stored.TOPICS} | {
        _rest(topics.key(each)): Stored.PARTITIONS for each in parts
    }


def subscription_keys(topic: TopicName, subscription: str) -> dict[str, Stored]:
    """What creating a subscription stores."""
    return {_rest(subscriptions.key(topic, subscription)): Stored.SUBSCRIPTIONS}


def _rest(key: str) -> str:
    return key.removeprefix(TOPICS)


def kind_of_topic(found: TopicRecord) -> Stored:
    """What a topic's record counts as."""
    return Stored.PARTITIONS if found.partition_of else Stored.TOPICS


def kind_of(item: KeyValue) -> Stored | None:
    """What a key below ``/topics/`` counts as; None for other keys."""
    match item.key.removeprefix(TOPICS).split("/"):
        case [_, _, "topic"]:
            return kind_of_topic(record.decode(TopicRecord, item))
        case [_, _, "subscriptions", _]:
            return Stored.SUBSCRIPTIONS
        case _:
            return None
