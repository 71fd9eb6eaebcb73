"""Checks messages: whether they name a schema of their topic's subject, and match that schema.

Every broker keeps in memory which topics are bound to which subjects, and which versions each
schema id has. So the schema reference is checked without I/O: per frame on the binary protocol,
from its header; per message on the other protocols. Payloads are checked only where the topic
requires it; only then frames are decoded. What is not in memory may have been registered a moment
ago: then the store is read.

A change of a topic's binding takes effect on the broker that made it before the request is
answered, and on others when their watches deliver it, usually within milliseconds. While the store
is unreachable, the last known binding applies.
"""

from __future__ import annotations

import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, suppress
from typing import Final, Protocol
from weakref import WeakKeyDictionary

from broker_containers.schemas.errors import InvalidPayload
from broker_containers.schemas.format import Format
from broker_containers.schemas.registry import SchemaRegistry
from broker_containers.schemas.steps import (
    ON_LOOP_STEPS,
    TooManySteps,
    at_most,
    payload_steps,
    run_bounded,
)
from sulina.errors import NotFound, SulinaError
from sulina.metadata.keys import record, schemas, topics
from sulina.metadata.keys.schemas import IdRecord, TopicSchemaRecord, Validation
from sulina.metadata.prefix_cache import CachedTable, PrefixCache
from sulina.metadata.store import KeyValue, MetadataStore
from sulina.names import TopicName
from sulina.runtime.deadline import within
from sulina.runtime.seam import Buffer, RunBlocking, run_inline
from sulina.wire.decode import Frame
from sulina.wire.header import FrameHeader
from sulina.wire.tombstones import payloads_with_values

_log = logging.getLogger(__name__)
_KEPT: Final = 256
_SEEN_SECONDS: Final = 2.0
_LARGE: Final = 64 * 1024
"""Size of a payload that is checked in a thread: JSON takes about 1 µs per 5 bytes."""


class OpenTopic(Protocol):
    """An open topic."""

    @property
    def name(self) -> TopicName: ...

    @property
    def failed(self) -> Counter[type[SulinaError]]: ...


class SchemaChecks:
    """Creates the checks of topics, and caches what they need.

    Use as ``async with``; entering waits for the first listing.
    """

    def __init__(
        self,
        registry: SchemaRegistry,
        store: MetadataStore,
        run_blocking: RunBlocking = run_inline,
    ) -> None:
        """``run_blocking`` checks payloads that are large, or take many steps."""
        self.registry = registry
        self._run_blocking = run_blocking
        self._store = store
        self.bound = CachedTable(schemas.BOUND, _binding)
        """The bindings of topics, including stale ones of deleted topics."""
        self.ids = CachedTable(schemas.IDS, _id)
        """The subject and versions of each schema id."""
        self.prefix_caches = (
            PrefixCache(store, registry.clock, schemas.BOUND, [self.bound]),
            PrefixCache(store, registry.clock, schemas.IDS, [self.ids]),
        )
        self._formats: OrderedDict[tuple[int, int], Format] = OrderedDict()
        self._absent: OrderedDict[tuple[int, int], int] = OrderedDict()
        """Ids that the store does not have, with the revision of ``ids`` when it was read."""
        self._running = AsyncExitStack()
        self._checks: WeakKeyDictionary[OpenTopic, TopicSchemaCheck] = WeakKeyDictionary()
        self.checked = 0
        """Messages and frames checked, for all topics."""
        self.refused = 0
        """Messages that did not match and were rejected."""
        self.warned = 0
        """Messages that did not match and were accepted."""

    async def __aenter__(self) -> SchemaChecks:
        async with AsyncExitStack() as stack:
            for prefix_cache in self.prefix_caches:
                await stack.enter_async_context(prefix_cache)
            followers = self.registry.topics.followers
            followers.append(self._seen)
            stack.callback(followers.remove, self._seen)
            self._running = stack.pop_all()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._running.aclose()

    async def _seen(self, revision: int) -> None:
        """Wait briefly until a change of a binding is visible here."""
        with suppress(TimeoutError):
            await within(
                self.registry.clock, _SEEN_SECONDS, self.prefix_caches[0].reached(revision)
            )

    def of(self, topic: OpenTopic) -> TopicSchemaCheck:
        """The check of an open topic, shared by all doors. Does no I/O."""
        found = self._checks.get(topic)
        if found is None:
            found = self._checks[topic] = TopicSchemaCheck(self, topic.name, topic.failed)
        return found

    async def created(self, topic: TopicName) -> tuple[str, int]:
        """The topic whose binding applies to a topic, and the revision at which it was created.

        Raises ``NotFound``.
        """
        holder = await self.registry.topics.holder(topic)
        item = await self._store.get(topics.key(holder))
        if item is None:
            raise topics.missing(holder)
        return _rest(holder), item.create_revision

    async def named(self, schema_id: int, version: int) -> str | None:
        """The subject that has this version, or None. Reads the store if it is not in memory.

        A missing version is cached until something is registered.
        """
        known = self.ids.items.get(str(schema_id))
        if known is not None and version in known.versions:
            return known.subject
        key = schema_id, version
        as_of = self.prefix_caches[1].revision
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
        """A parsed version, from a least-recently-used cache. Raises ``NotFound``."""
        key = schema_id, version
        found = self._formats.get(key)
        if found is None:
            schema = await self.registry.get(schema_id, version)
            found = await self.registry.format_of(schema.version)
            for what in found.unchecked:
                _log.warning(
                    "schema %r, version %d: %s and is not checked: register a version without it",
                    schema.subject,
                    version,
                    what,
                )
            self._formats[key] = found
            if len(self._formats) > _KEPT:
                self._formats.popitem(last=False)
        else:
            self._formats.move_to_end(key)
        return found

    async def look(self, look: Callable[[], tuple[int, str]], size: int) -> tuple[int, str]:
        """Check payloads of ``size`` bytes: here if that is quick, otherwise in a thread."""
        if size < _LARGE:
            with suppress(TooManySteps), at_most(ON_LOOP_STEPS):
                return look()
        try:
            return await run_bounded(self._run_blocking, payload_steps(size), look)
        except TooManySteps:
            return 1, "its schema is too complex to check it: simplify the schema"


class TopicSchemaCheck:
    """The check of one topic. Needs no closing."""

    def __init__(
        self,
        checks: SchemaChecks,
        topic: TopicName,
        refused: Counter[type[SulinaError]] | None = None,
    ) -> None:
        """``refused`` counts what is refused."""
        self._checks = checks
        self._topic = topic
        self._refused: Counter[type[SulinaError]] = Counter() if refused is None else refused
        split = topic.partition_of
        self._places = [_rest(topic)] + ([_rest(split[0])] if split else [])
        """Where a binding may be; which one applies is resolved when there is one."""
        self._key: str | None = None
        self._created = 0
        self.checked = 0
        """Messages and frames checked."""
        self.failed = 0
        """Messages that did not match, accepted or not."""

    async def resolve(self) -> None:
        """Find out which binding applies. Raises ``NotFound``, and errors of the store."""
        if self._key is None:
            key, self._created = await self._checks.created(self._topic)
            self._key = key

    @property
    def config(self) -> TopicSchemaRecord | None:
        """The topic's binding, or None; only after :meth:`resolve`."""
        found = None if self._key is None else self._checks.bound.items.get(self._key)
        # An older binding belongs to a deleted topic of the same name.
        if found is None or self._checks.bound.revisions[self._key or ""] < self._created:
            return None
        return found

    def passes(self, schema_id: int, version: int) -> bool:
        """Whether only the schema reference in a frame's header needs to be checked, and is valid.

        Never waits. If it is False, call ``check`` or ``check_frame``.
        """
        if self._key is None:
            return self._checks.bound.items.keys().isdisjoint(self._places)
        config = self.config
        if config is None or config.validation is Validation.NONE:
            return True
        return not config.payload and self._names(config, schema_id, version)

    def admits(self, schema_id: int, version: int) -> bool:
        """Whether the schema reference in a frame's header is valid; never waits.

        If it is False, the reference may only be unknown here: call ``check_name``.
        """
        config = self.config
        if config is None or config.validation is Validation.NONE:
            return True
        return self._names(config, schema_id, version)

    def _names(self, config: TopicSchemaRecord, schema_id: int, version: int) -> bool:
        named = self._checks.ids.items.get(str(schema_id))
        if named is None or named.subject != config.subject or version not in named.versions:
            return False
        self._count()
        return True

    def _count(self) -> None:
        self.checked += 1
        self._checks.checked += 1

    async def check_name(self, schema_id: int, version: int) -> bool:
        """Check a schema reference that ``admits`` does not know; may read the store.

        Returns whether it is valid. Raises ``InvalidPayload`` if it is not and the topic enforces
        its schema.
        """
        await self.resolve()
        config = self.config
        if config is None or config.validation is Validation.NONE:
            return True
        self._count()
        if not schema_id:
            why = f"the message names no schema: it must name a version of {config.subject!r}"
        else:
            found = await self._checks.named(schema_id, version)
            if found == config.subject:
                return True
            why = f"schema {schema_id}, version {version}, is " + (
                "not registered" if found is None else f"of {found!r}"
            )
        self._judge(config, why)
        return False

    async def check(self, schema_id: int, version: int, payload: bytes) -> None:
        """Check one message; 0 means that it names no schema.

        Raises ``InvalidPayload`` if it does not match and the topic enforces its schema. Reads the
        store only for what is not in memory.
        """
        if not self.passes(schema_id, version):
            await self._check(schema_id, version, len(payload), lambda: [payload])

    async def check_frame(self, header: FrameHeader, frame: Buffer) -> None:
        """Check all messages of a frame whose checksum is valid; see :meth:`check`.

        It is accepted or rejected as a whole. Raises ``CorruptFrame`` if it cannot be decoded.
        """
        await self._check(
            header.schema_id,
            header.schema_version,
            header.raw_length,
            lambda: payloads_with_values(Frame(frame)),
        )

    async def _check(
        self, schema_id: int, version: int, size: int, payloads: Callable[[], Sequence[bytes]]
    ) -> None:
        await self.resolve()
        if not self.admits(schema_id, version) and not await self.check_name(schema_id, version):
            return  # it is accepted anyway, and there is nothing to check it against
        config = self.config
        if config is None or config.validation is Validation.NONE or not config.payload:
            return
        form = await self._checks.format(schema_id, version)

        def look() -> tuple[int, str]:
            return _wrong(form, payloads())

        failed, why = await self._checks.look(look, size)
        if failed:
            self._judge(config, why, failed)

    def _judge(self, config: TopicSchemaRecord, why: str, failed: int = 1) -> None:
        told = self.failed.bit_length()
        self.failed += failed
        if config.validation is Validation.ENFORCE:
            self._checks.refused += failed
            self._refused[InvalidPayload] += failed
            raise InvalidPayload(f"{self._topic} accepts only {config.subject!r} messages: {why}")
        self._checks.warned += failed
        if self.failed.bit_length() > told:  # log only the 1st, 2nd, 4th, 8th, ...
            _log.warning(
                "%s: %d messages do not match the schema: %s", self._topic, self.failed, why
            )


def _wrong(form: Format, payloads: Sequence[bytes]) -> tuple[int, str]:
    """How many payloads do not match, and what is wrong with the first of them."""
    failed, why = 0, ""
    for number, payload in enumerate(payloads, 1):
        try:
            form.check(payload)
        except InvalidPayload as error:
            failed += 1
            if failed == 1:
                why = str(error) if len(payloads) == 1 else f"message {number} of a batch: {error}"
    return failed, why


def _rest(topic: TopicName) -> str:
    return schemas.bound_key(topic).removeprefix(schemas.BOUND)


def _binding(item: KeyValue) -> TopicSchemaRecord:
    return record.decode(TopicSchemaRecord, item)


def _id(item: KeyValue) -> IdRecord | None:
    return None if item.key == schemas.NEXT_ID else record.decode(IdRecord, item)
