"""How a broker reads the records and policies of topics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from sulina.metadata.keys import topics
from sulina.metadata.keys.policy import Policy
from sulina.metadata.keys.topics import TopicRecord
from sulina.metadata.store import MetadataStore
from sulina.names import TopicName


class TopicMetadata(Protocol):
    """How a broker reads topic records and policies: from the store, or from a cache.

    May be slightly out of date: writes must be guarded by what the store holds.
    """

    async def describe(self, name: TopicName) -> TopicRecord | None:
        """A topic's record in any state, or None."""
        ...

    async def policy(self, name: TopicName) -> Policy:
        """The policy in force for a topic. Raises ``NotFound``."""
        ...

    async def gone(self, name: TopicName) -> None:
        """Wait until a deleted topic is no longer found here."""
        ...


class StoredTopicMetadata:
    """Reads from the store every time."""

    def __init__(self, store: MetadataStore, defaults: Callable[[], Policy]) -> None:
        self._store = store
        self._defaults = defaults

    async def describe(self, name: TopicName) -> TopicRecord | None:
        return await topics.get(self._store, name)

    async def policy(self, name: TopicName) -> Policy:
        return await topics.effective_policy(self._store, name, self._defaults())

    async def gone(self, name: TopicName) -> None: ...
