"""Namespaces, topics and subscriptions in memory, as every broker keeps them.

The cache watches ``/topics/`` and ``/namespaces/``. It is usually milliseconds behind the store, or
longer while the store is unreachable: a record may have changed or been deleted since. That is
harmless for policies, listings and topic properties. Code that creates, deletes or takes over a
topic reads the store and guards its writes by what it read.

A record that is missing here may have been created a moment ago: then the store is read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from broker_containers.broker.broker import Broker
from broker_containers.quotas.stored_counts import StoredCounts, counted
from sulina.metadata.keys import namespaces, record, subscriptions, topics
from sulina.metadata.keys.path import NAMESPACES, TOPICS, name_of, part
from sulina.metadata.keys.policy import NamespacePolicy, Policy, PolicyOverrides
from sulina.metadata.keys.subscriptions import SubscriptionRecord
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock

_GONE_SECONDS = 2.0

PolicyWatcher = Callable[[str, TopicName | None], None]


class MetadataCache:
    """Use as ``async with``; entering waits for a first listing."""

    def __init__(self, store: MetadataStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._topics: dict[str, dict[TopicName, TopicRecord]] = {}
        self._subscriptions: dict[TopicName, dict[str, SubscriptionRecord]] = {}
        self.defaults: Callable[[], Policy] = Policy
        """What the brokers' settings say of limits that neither topic nor namespace sets."""
        self._policies: CachedTable[PolicyOverrides] = CachedTable(NAMESPACES, _policy)
        self._policies.on_change(self._namespace_changed)
        found: CachedTable[TopicRecord | SubscriptionRecord] = CachedTable(
            TOPICS, _topic_or_subscription
        )
        found.on_change(self._topic_changed)
        self._found = found
        self._watchers: list[PolicyWatcher] = []
        self.prefix_caches = (
            PrefixCache(store, clock, NAMESPACES, [self._policies]),
            PrefixCache(store, clock, TOPICS, [found]),
        )
        self._running = AsyncExitStack()

    async def __aenter__(self) -> MetadataCache:
        async with AsyncExitStack() as stack:
            for prefix_cache in self.prefix_caches:
                await stack.enter_async_context(prefix_cache)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    # ---- from memory, or else from the store ----

    async def describe(self, name: TopicName) -> TopicRecord | None:
        """A topic's record in any state, or None if the store has none."""
        return self.known(name) or await topics.get(self._store, name)

    async def policy(self, name: TopicName) -> Policy:
        """The policy in force for a topic. Raises ``NotFound``."""
        known = self.known_policy(name)
        return known or await topics.effective_policy(self._store, name, self.defaults())

    async def gone(self, name: TopicName) -> None:
        """Wait briefly until a deleted topic is no longer known here."""
        try:
            await within(self._clock, _GONE_SECONDS, self._forgotten(name))
        except TimeoutError:
            return  # created again, or the watch is behind; it is deleted in the store

    async def _forgotten(self, name: TopicName) -> None:
        while self.known(name) is not None:
            await self.prefix_caches[1].change()

    async def subscription(self, topic: TopicName, name: str) -> SubscriptionRecord | None:
        """A subscription's record, or None if the store has none."""
        found = self.subscriptions(topic).get(name)
        return found or await subscriptions.get(self._store, topic, name)

    async def namespace(self, namespace: str) -> Policy:
        """A namespace's policy. Raises ``NotFound`` if the store has none."""
        found = self._policies.items.get(f"{part(namespace)}/policy")
        found = found or await namespaces.get_overrides(self._store, namespace)
        return found.over(self.defaults())

    # ---- from memory only ----

    def known(self, name: TopicName) -> TopicRecord | None:
        """A topic's record, or None if it is not known here."""
        return self._topics.get(name.namespace, {}).get(name)

    def known_policy(self, name: TopicName) -> Policy | None:
        """The policy in force for a topic, or None if it or its namespace is not known here."""
        found = self.known(name)
        if found is not None and found.partition_of:
            found = self.known(TopicName.parse(found.partition_of))
        general = self._policies.items.get(f"{part(name.namespace)}/policy")
        if found is None or general is None:
            return None
        return found.policy.over(general.over(self.defaults()))

    def subscriptions(self, topic: TopicName) -> dict[str, SubscriptionRecord]:
        """The known subscriptions of a topic."""
        return dict(self._subscriptions.get(topic, {}))

    def list(self, namespace: str) -> dict[TopicName, TopicRecord]:
        """The known topics of a namespace, including partitions, sorted by name."""
        return dict(sorted(self._topics.get(namespace, {}).items()))

    def namespaces(self) -> Sequence[str]:
        """The known namespaces, sorted."""
        return sorted(name_of(rest.partition("/")[0]) for rest in self._policies.items)

    def count_into(self, counts: StoredCounts) -> None:
        """Report all topics and subscriptions to ``counts``. Call it before entering."""
        self._found.on_change(lambda rest, found: counts.changed(rest, counted(found)))

    def on_policy(self, watcher: PolicyWatcher) -> None:
        """Call ``watcher`` when the policy of a namespace, or of one topic, changed.

        A topic's partitions share its policy and are not reported. New and deleted topics are not
        reported either.
        """
        self._watchers.append(watcher)

    # ---- watching ----

    def _namespace_changed(self, rest: str, policy: PolicyOverrides | None) -> None:
        if policy is not None:
            self._tell(name_of(rest.partition("/")[0]), None)

    def _topic_changed(self, rest: str, found: TopicRecord | SubscriptionRecord | None) -> None:
        namespace, local, leaf, *more = map(name_of, rest.split("/"))
        topic = TopicName(namespace, local)
        if leaf == "topic":
            self._topic_is(topic, found if isinstance(found, TopicRecord) else None)
        elif isinstance(found, SubscriptionRecord):
            self._subscriptions.setdefault(topic, {})[more[0]] = found
        else:
            beneath = self._subscriptions.get(topic, {})
            beneath.pop(more[0], None)
            if not beneath:
                self._subscriptions.pop(topic, None)

    def _topic_is(self, topic: TopicName, found: TopicRecord | None) -> None:
        beneath = self._topics.setdefault(topic.namespace, {})
        before = beneath.pop(topic, None)
        if found is not None:
            beneath[topic] = found
            if before is not None and before.policy != found.policy:
                self._tell(topic.namespace, topic)
        elif not beneath:
            del self._topics[topic.namespace]

    def _tell(self, namespace: str, topic: TopicName | None) -> None:
        for watcher in self._watchers:
            watcher(namespace, topic)


def follow_policies(broker: Broker, cache: MetadataCache) -> None:
    """Apply policy changes, made on any broker, to the topics that are open here."""

    def changed(namespace: str, topic: TopicName | None) -> None:
        for found in broker.loaded():
            name = found.name
            base = name.partition_of[0] if name.partition_of else name
            if name.namespace == namespace and topic in (None, name, base):
                found.policy = cache.known_policy(name) or found.policy

    cache.defaults = broker.policy_defaults
    cache.on_policy(changed)


def _policy(item: KeyValue) -> PolicyOverrides | None:
    if not item.key.endswith("/policy"):
        return None
    return record.decode(NamespacePolicy, item).overrides


def _topic_or_subscription(item: KeyValue) -> TopicRecord | SubscriptionRecord | None:
    match item.key.removeprefix(TOPICS).split("/"):
        case [_, _, "topic"]:
            return record.decode(TopicRecord, item)
        case [_, _, "subscriptions", _]:
            return record.decode(SubscriptionRecord, item)
        case _:
            return None  # a key family of a newer version
