"""Decides about messages: whether they name a schema of their topic's subject, and are as it says.

Every broker keeps in memory which topics are bound to what, and which versions each schema id has.
So a name is checked without a question to anybody: by the binary door once a frame, from its
header, without opening it; by doors that see each message once a message, with the payload if the
topic wants that. What is not known here may have been registered elsewhere a moment ago: then the
store is asked.

A change of a topic's policy holds on the broker that made it when that is answered, and on others
as soon as their watches tell, milliseconds later as a rule. While the store can't be reached, what
was known last counts.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from contextlib import AsyncExitStack, suppress
from typing import Final

from broker_containers.schemas.errors import InvalidPayload
from broker_containers.schemas.format import Format
from broker_containers.schemas.registry import SchemaRegistry
from sulina.errors import NotFound
from sulina.metadata.keys import record, schemas, topics
from sulina.metadata.keys.schemas import IdRecord, TopicSchemaRecord, Validation
from sulina.metadata.mirror import Mirror, Table
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.names import TopicName
from sulina.runtime.deadline import within

_log = logging.getLogger(__name__)
_KEPT: Final = 256
_SEEN_SECONDS: Final = 2.0
_LARGE: Final = 64 * 1024
"""Bytes of a payload that would keep others waiting: JSON takes about a microsecond for five."""


class SchemaGates:
    """Makes gates, and keeps what they need.

    Use as ``async with``; entering waits for a first listing.
    """

    def __init__(self, registry: SchemaRegistry, store: MetadataStore) -> None:
        self.registry = registry
        self._store = store
        self.bound = Table(schemas.BOUND, _binding)
        """What topics are bound to; what is left of deleted ones is among it."""
        self.ids = Table(schemas.IDS, _id)
        """What schema ids are."""
        self.mirrors = (
            Mirror(store, registry.clock, schemas.BOUND, [self.bound]),
            Mirror(store, registry.clock, schemas.IDS, [self.ids]),
        )
        self._formats: OrderedDict[tuple[int, int], Format] = OrderedDict()
        self._absent: OrderedDict[tuple[int, int], int] = OrderedDict()
        """What the store did not have, and the revision of ``ids`` when it was asked."""
        self._running = AsyncExitStack()

    async def __aenter__(self) -> SchemaGates:
        async with AsyncExitStack() as stack:
            for mirror in self.mirrors:
                await stack.enter_async_context(mirror)
            followers = self.registry.topics.followers
            followers.append(self._seen)
            stack.callback(followers.remove, self._seen)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def _seen(self, revision: int) -> None:
        """Wait until a change of a binding is known here; for a moment only."""
        with suppress(TimeoutError):
            await within(self.registry.clock, _SEEN_SECONDS, self.mirrors[0].reached(revision))

    async def gate(self, topic: TopicName) -> TopicGate:
        """The gate of a topic, for as long as it is open here. Raises ``NotFound``."""
        holder = await self.registry.topics.holder(topic)
        item = await self._store.get(topics.key(holder))
        if item is None:
            raise topics.missing(holder)
        return TopicGate(self, topic, holder, item.create_revision)

    async def named(self, schema_id: int, version: int) -> str | None:
        """The subject that has this version, or None. Asks the store for what is not known here.

        That there is none holds until something is registered: it is not asked for again before.
        """
        known = self.ids.items.get(str(schema_id))
        if known is not None and version in known.versions:
            return known.subject
        key = schema_id, version
        as_of = self.mirrors[1].revision
        if self._absent.get(key) == as_of:
            return None
        try:
            return (await self.registry.get(schema_id, version)).subject
        except NotFound:
            self._absent.pop(key, None)
            self._absent[key] = as_of
            if len(self._absent) > _KEPT:
                self._absent.popitem(last=False)
            return None

    async def format(self, schema_id: int, version: int) -> Format:
        """A version, understood. Raises ``NotFound``. Kept, the last used first."""
        key = schema_id, version
        found = self._formats.get(key)
        if found is None:
            schema = await self.registry.get(schema_id, version)
            found = await self.registry.format_of(schema.version)
            self._formats[key] = found
            if len(self._formats) > _KEPT:
                self._formats.popitem(last=False)
        else:
            self._formats.move_to_end(key)
        return found


class TopicGate:
    """The gate of one topic. Needs no closing."""

    def __init__(
        self, gates: SchemaGates, topic: TopicName, holder: TopicName, created: int
    ) -> None:
        self._gates = gates
        self._topic = topic
        self._key = schemas.bound_key(holder).removeprefix(schemas.BOUND)
        self._created = created
        self.checked = 0
        """Messages and frames that were looked at."""
        self.failed = 0
        """Those that were not as they should be, whether they were taken or not."""

    @property
    def config(self) -> TopicSchemaRecord | None:
        """What the topic is bound to, or None."""
        found = self._gates.bound.items.get(self._key)
        # An older binding is of a topic that had the same name and was deleted.
        if found is None or self._gates.bound.revisions[self._key] < self._created:
            return None
        return found

    def admits(self, schema_id: int, version: int) -> bool:
        """Whether the names in a frame's header are right; waits for nothing.

        If they are not, or not yet known here, ``check_name`` decides.
        """
        config = self.config
        if config is None or config.validation is Validation.NONE:
            return True
        named = self._gates.ids.items.get(str(schema_id))
        if named is None or named.subject != config.subject or version not in named.versions:
            return False
        self.checked += 1
        return True

    async def check_name(self, schema_id: int, version: int) -> bool:
        """Decide about names that ``admits`` did not know; asks the store if need be.

        Returns whether they are right. Raises ``InvalidPayload`` if they are not and the topic's
        policy is to refuse.
        """
        config = self.config
        if config is None or config.validation is Validation.NONE:
            return True
        self.checked += 1
        if not schema_id:
            why = f"the message names no schema, and must name one of {config.subject!r}"
        else:
            found = await self._gates.named(schema_id, version)
            if found == config.subject:
                return True
            why = f"schema {schema_id}, version {version}, is " + (
                "not registered" if found is None else f"of {found!r}"
            )
        self._judge(config, why)
        return False

    async def check(self, schema_id: int, version: int, payload: bytes) -> None:
        """Decide about one message; 0 stands for a schema that it does not name.

        Raises ``InvalidPayload`` if the topic's policy is to refuse. Asks the store only for what
        is not known here yet.
        """
        if not self.admits(schema_id, version) and not await self.check_name(schema_id, version):
            return  # it is taken all the same, and there is nothing to check it by
        config = self.config
        if config is None or config.validation is Validation.NONE or not config.payload:
            return
        try:
            form = await self._gates.format(schema_id, version)
            if len(payload) < _LARGE:
                form.check(payload)
            else:
                await self._gates.registry.aside(lambda: form.check(payload))
        except InvalidPayload as error:
            self._judge(config, str(error))

    def _judge(self, config: TopicSchemaRecord, why: str) -> None:
        self.failed += 1
        if config.validation is Validation.ENFORCE:
            raise InvalidPayload(f"{self._topic} takes messages of {config.subject!r} only: {why}")
        if self.failed & (self.failed - 1) == 0:  # the 1st, 2nd, 4th, 8th: a log is no journal
            _log.warning(
                "%s: %d messages are not as they should: %s", self._topic, self.failed, why
            )


def _binding(item: KeyValue) -> TopicSchemaRecord:
    return record.decode(TopicSchemaRecord, item)


def _id(item: KeyValue) -> IdRecord | None:
    return None if item.key == schemas.NEXT_ID else record.decode(IdRecord, item)
