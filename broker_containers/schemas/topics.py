"""Binds topics to schema subjects, and sets what happens to messages that do not match.

A topic is bound by an administrator, or by the first producer that names a subject. A partition
uses its topic's binding. The binding is deleted with the topic.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from sulina.errors import Overloaded, Refused, UnknownOutcome
from sulina.metadata.keys import record, schemas, topics
from sulina.metadata.keys.schemas import TopicSchemaRecord, Validation
from sulina.metadata.store import Delete, KeyValue, MetadataStore, ModRevisionIs, Op, Put
from sulina.names import TopicName

_TRIES: Final = 16
_PAGE: Final = 1_000
Follower = Callable[[int], Awaitable[None]]
_Change = Callable[[TopicSchemaRecord | None], TopicSchemaRecord]


class TopicSchemas:
    """Bindings in the metadata store. Can be used by any number of tasks and brokers."""

    def __init__(self, store: MetadataStore) -> None:
        self.store = store
        self.followers: list[Follower] = []
        """Called with the revision of each change made here, before the change is answered."""

    async def get(self, topic: TopicName) -> TopicSchemaRecord | None:
        """A topic's binding, or None. Raises ``NotFound`` if the topic does not exist."""
        item = await self.store.get(schemas.topic_key(await self.holder(topic)))
        return None if item is None else record.decode(TopicSchemaRecord, item)

    async def holder(self, topic: TopicName) -> TopicName:
        """The topic whose binding applies: itself, or the one it is a partition of.

        Raises ``NotFound`` if the topic does not exist.
        """
        found = await topics.get(self.store, topic)
        if found is None:
            raise topics.missing(topic)
        return TopicName.parse(found.partition_of) if found.partition_of else topic

    async def configure(self, topic: TopicName, wanted: TopicSchemaRecord) -> None:
        """Bind a topic, replacing its binding. Raises ``NotFound`` for topic or subject."""
        await self._change(topic, lambda _: wanted)

    async def set_policy(
        self, topic: TopicName, validation: Validation, payload: bool
    ) -> TopicSchemaRecord:
        """Change the validation of a topic. Raises ``Refused`` if it is not bound."""

        def change(current: TopicSchemaRecord | None) -> TopicSchemaRecord:
            if current is None:
                raise Refused(f"{topic} has no schema: bind it to a subject first")
            return TopicSchemaRecord(current.subject, validation, payload)

        return await self._change(topic, change)

    async def bind(self, topic: TopicName, subject: str) -> TopicSchemaRecord:
        """For a producer that names a subject: the first binds the topic, others must agree.

        Raises ``Refused`` if the topic is bound to another subject, ``NotFound`` for a topic or
        subject that does not exist.
        """

        def change(current: TopicSchemaRecord | None) -> TopicSchemaRecord:
            if current is None:
                return TopicSchemaRecord(subject)
            if current.subject != subject:
                raise Refused(
                    f"{topic} is bound to the schema subject {current.subject!r}, not to "
                    f"{subject!r}: produce with that one, or bind the topic again"
                )
            return current

        return await self._change(topic, change)

    async def bound_to(self, subject: str) -> list[TopicName]:
        """The topics bound to a subject."""
        found: list[TopicName] = []
        after: str | None = None
        while True:
            page = await self.store.range(schemas.BOUND, limit=_PAGE, after=after)
            for item in page.items:
                if record.decode(TopicSchemaRecord, item).subject == subject:
                    found += await self._still(item, subject)
            if not page.more:
                return found
            after = page.items[-1].key

    async def _still(self, item: KeyValue, subject: str) -> list[TopicName]:
        """The topic, if it is still bound; otherwise the stale binding is deleted."""
        topic = schemas.bound_topic(item.key)
        truth = await self.store.get(schemas.topic_key(topic))
        if truth is None:
            swap = ModRevisionIs(item.key, item.mod_revision)
            absent = ModRevisionIs(schemas.topic_key(topic), 0)
            await self.store.txn([swap, absent], [Delete(item.key)])
            return []
        return [topic] if record.decode(TopicSchemaRecord, truth).subject == subject else []

    async def _change(self, topic: TopicName, change: _Change) -> TopicSchemaRecord:
        for _ in range(_TRIES):
            holder = await self.holder(topic)
            item = await self.store.get(schemas.topic_key(holder))
            current = None if item is None else record.decode(TopicSchemaRecord, item)
            wanted = change(current)
            if wanted == current:
                return wanted
            subject = await self.store.get(schemas.subject_key(wanted.subject))
            schemas.read_subject(subject, wanted.subject)
            assert subject is not None
            value = record.encode(wanted)
            ops: list[Op] = [
                Put(schemas.topic_key(holder), value),
                Put(schemas.bound_key(holder), value),
                # Unchanged: this only prevents the subject from being deleted concurrently.
                Put(subject.key, subject.value),
            ]
            try:
                result = await self.store.txn(
                    [
                        topics.exists(holder),
                        ModRevisionIs(schemas.topic_key(holder), item.mod_revision if item else 0),
                        ModRevisionIs(subject.key, subject.mod_revision),
                    ],
                    ops,
                )
            except UnknownOutcome:
                continue  # it is read back, and changed again if needed
            if result.succeeded:
                for follower in self.followers:
                    await follower(result.revision)
                return wanted
        raise Overloaded(f"the schema of {topic} keeps changing: try again later")
