"""Counts the topics, partitions and subscriptions of each namespace and creator, in memory.

The counts follow the metadata through a watch, and include at once what this broker is creating.
So they are exact for what one broker creates. Brokers of a cluster learn of each other's creations
within milliseconds, and may together exceed a limit by what they create in that time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Final, NamedTuple

from broker_containers.quotas.rates import Subject
from sulina.metadata.keys import record, subscriptions, topics
from sulina.metadata.keys.path import TOPICS, name_of
from sulina.metadata.keys.quotas import QuotaScope
from sulina.metadata.keys.subscriptions import SubscriptionRecord
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


class Counted(NamedTuple):
    """What a key counts as, and for which principal."""

    kind: Stored
    creator: str | None


class StoredCounts:
    """By the part of each key after ``/topics/``; call ``changed`` for every change there."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Counted] = {}
        self._topics: dict[str, str] = {}
        """The names of those that are topics."""
        self._unseen: dict[str, float] = {}
        """Creations of this broker that the watch has not reported, and until when they count."""
        self._counts: Counter[tuple[Subject, Stored]] = Counter()

    def use(self, subject: Subject, kind: Stored) -> int:
        """How many of a kind a namespace has, or a principal created."""
        return self._counts[subject, kind]

    def subjects(self) -> list[Subject]:
        """The namespaces with topics, and the principals that created something."""
        return [subject for subject, _ in self._counts]

    def topics(self) -> Collection[str]:
        """The names of the topics, without their partitions, in no order."""
        return self._topics.values()

    def changed(self, rest: str, found: Counted | None) -> None:
        """A key was created or changed, or with None deleted."""
        self._unseen.pop(rest, None)
        if self._known.get(rest) != found:
            self._set(rest, found)

    def missing(self, wanted: Mapping[str, Stored]) -> Counter[Stored]:
        """How many of ``wanted`` do not exist yet, by kind."""
        now = self._clock.now()
        while self._unseen and next(iter(self._unseen.values())) < now:
            self._set(next(iter(self._unseen)), None)
        return Counter(kind for rest, kind in wanted.items() if rest not in self._known)

    @contextmanager
    def creating(self, wanted: Mapping[str, Stored], creator: str | None) -> Iterator[None]:
        """Count ``wanted`` as existing, unless the block raises."""
        new = {rest: kind for rest, kind in wanted.items() if rest not in self._known}
        until = self._clock.now() + _UNSEEN_SECONDS
        for rest, kind in new.items():
            self._set(rest, Counted(kind, creator))
            self._unseen[rest] = until
        try:
            yield
        except BaseException:
            for rest in new.keys() & self._unseen.keys():
                self._set(rest, None)
            raise

    def _set(self, rest: str, found: Counted | None) -> None:
        self._unseen.pop(rest, None)
        before = self._known.pop(rest, None)
        self._topics.pop(rest, None)
        if before is not None:
            self._add(rest, before, -1)
        if found is not None:
            self._known[rest] = found
            self._add(rest, found, 1)
            if found.kind is Stored.TOPICS:
                namespace, topic, _ = rest.split("/")
                self._topics[rest] = f"/{name_of(namespace)}/{name_of(topic)}"

    def _add(self, rest: str, counted: Counted, number: int) -> None:
        namespace = QuotaScope.NAMESPACE, name_of(rest.partition("/")[0])
        for subject in stored_where(namespace, counted.creator):
            self._counts[subject, counted.kind] += number
            if not self._counts[subject, counted.kind]:
                del self._counts[subject, counted.kind]


def stored_where(first: Subject, creator: str | None) -> tuple[Subject, ...]:
    """The subjects in whose quotas something stored counts: ``first``, and its creator if any."""
    return (first,) if creator is None else (first, (QuotaScope.PRINCIPAL, creator))


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


def counted(found: TopicRecord | SubscriptionRecord | None) -> Counted | None:
    """What the record of a topic or a subscription counts as; None if it is deleted."""
    if found is None:
        return None
    kind = Stored.SUBSCRIPTIONS
    if isinstance(found, TopicRecord):
        kind = Stored.PARTITIONS if found.partition_of else Stored.TOPICS
    return Counted(kind, found.created_by)


def read_counted(item: KeyValue) -> Counted | None:
    """What a key below ``/topics/`` counts as; None for other keys."""
    match item.key.removeprefix(TOPICS).split("/"):
        case [_, _, "topic"]:
            return counted(record.decode(TopicRecord, item))
        case [_, _, "subscriptions", _]:
            return counted(record.decode(SubscriptionRecord, item))
        case _:
            return None
