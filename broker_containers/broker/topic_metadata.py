"""How a broker reads what topics are: from the store, or from a cache of it."""

from __future__ import annotations

from typing import Protocol

from sulina.metadata.keys import topics
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName


class TopicMetadata(Protocol):
    """May be a moment behind: whoever writes guards it by what the store says."""

    async def describe(self, name: TopicName) -> TopicRecord | None:
        """A topic's record, in whatever state it is, or None."""
        ...

    async def policy(self, name: TopicName) -> Policy:
        """The limits in force for a topic. Raises ``NotFound``."""
        ...

    async def gone(self, name: TopicName) -> None:
        """Wait until a topic that was deleted is not found here any more either."""
        ...


class StoredTopicMetadata:
    """Asks the store each time."""

    def __init__(self, store: MetadataStore) -> None:
        self._store = store

    async def describe(self, name: TopicName) -> TopicRecord | None:
        return await topics.get(self._store, name)

    async def policy(self, name: TopicName) -> Policy:
        return await topics.effective_policy(self._store, name)

    async def gone(self, name: TopicName) -> None: ...
