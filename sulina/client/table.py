"""A live dictionary of the newest value of each key of a topic.

A table reads each partition from its start, without a subscription, and then follows it. It
remembers the next offset of each partition and never reads below it, so that a lost connection, a
takeover or a broker that is behind neither loses a change nor brings an older value back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, Self, TypeVar
from weakref import WeakSet

from sulina.client.codecs import ValueCodec
from sulina.client.message import Batch
from sulina.client.options import ClientOptions
from sulina.client.reader import ReadResult, read_part
from sulina.client.records import as_key
from sulina.client.retry import may_retry, retry
from sulina.client.session import AsyncResource, closed_error
from sulina.client.topics import TopicLookup
from sulina.errors import Closed, Overloaded, Refused, SulinaError
from sulina.model import Start
from sulina.runtime.deadline import within
from sulina.runtime.retry_delay import RetryDelay
from sulina.runtime.seam import Runtime
from sulina.runtime.tasks import stop_tasks
from sulina.wire.header import MAX_RECORDS
from sulina.wire.tombstones import is_tombstone

V = TypeVar("V")
_READ_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class TableOptions:
    """See ``Client.table``."""

    topic: str
    create: bool
    wait: bool
    max_bytes: int
    poll_seconds: float

    def __post_init__(self) -> None:
        if self.max_bytes < 1 or not self.poll_seconds > 0:
            raise Refused("max_bytes and poll_seconds must be greater than 0")


@dataclass(frozen=True, slots=True)
class Change(Generic[V]):
    """A key that was set or deleted."""

    key: str
    value: V | None
    """The new value, or None if the key was deleted."""
    offset: int
    """Of the record, in its topic or partition."""


class Table(AsyncResource, Mapping[str, V]):
    """The newest value of each key. Created by ``Client.table``; use it in ``async with``.

    It is a mapping of keys to values and changes as records arrive; nothing changes between two
    ``await``. Keys are text, decoded as UTF-8 with ``surrogateescape``; ``table[key]`` takes bytes,
    too. Records without a key are ignored, tombstones remove their key. Values are bytes, or of the
    class given as ``schema``; those are decoded at each access, which raises ``Refused`` if the
    payload is invalid.

    While the connection is lost the table keeps its values. After ``reconnect_timeout``, or if the
    topic is deleted, it stops: every access raises the reason.
    """

    def __init__(
        self,
        options: TableOptions,
        codec: ValueCodec | None,
        client: ClientOptions,
        topics: TopicLookup,
        runtime: Runtime,
        on_close: Callable[[Table[Any]], None],
    ) -> None:
        self._options = options
        self._codec = codec
        self._client = client
        self._topics = topics
        self._runtime = runtime
        self._on_close = on_close
        self._payloads: dict[bytes, bytes] = {}
        self._bytes = 0
        self._loading = 0
        """Partitions whose history is not read yet."""
        self._ready: asyncio.Future[None] | None = None
        self._failure: SulinaError | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._updates: WeakSet[_Updates[V]] = WeakSet()

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    # ---- life ----

    @property
    def topic(self) -> str:
        """The topic that was passed to ``Client.table``."""
        return self._options.topic

    @property
    def size_bytes(self) -> int:
        """The size of all keys and values."""
        return self._bytes

    @property
    def is_ready(self) -> bool:
        """Whether everything that the topic had when the table was opened has been read."""
        ready = self._ready
        return ready is not None and ready.done() and self._failure is None

    async def open(self) -> Self:
        """Look up the topic and read it. ``async with`` calls this.

        Waits until the history is read, unless ``wait`` is false. Raises ``NotFound`` if the topic
        does not exist and ``create`` is false, ``Overloaded`` if the table is too large, and the
        broker's error.
        """
        if self._failure is not None:
            raise self._failure
        info = await retry(
            self._runtime,
            self._client.operation_timeout,
            lambda: self._topics.describe(self._options.topic, create=self._options.create),
        )
        self._ready = asyncio.get_running_loop().create_future()
        self._ready.add_done_callback(lambda ready: ready.cancelled() or ready.exception())
        self._loading = len(info.parts)
        self._tasks = [asyncio.create_task(self._follow(name)) for name, _ in info.parts]
        try:
            if self._options.wait:
                await self.ready()
        except BaseException:
            await self.close()
            raise
        return self

    async def ready(self) -> None:
        """Wait until everything that the topic had when the table was opened has been read.

        Raises the error that stopped the table, if one did.
        """
        if self._ready is None:
            raise Closed("the table is not open yet: use it in `async with`")
        await asyncio.shield(self._ready)

    async def close(self) -> None:
        """Stop following the topic; later accesses raise ``Closed``. Raises nothing."""
        await stop_tasks(*self._tasks)
        self._stop(closed_error("table"))
        self._payloads = {}
        self._bytes = 0
        self._on_close(self)

    async def abandon(self) -> None:
        """The same: there is nothing to wait for."""
        await self.close()

    def _stop(self, error: SulinaError) -> None:
        if self._failure is None:
            self._failure = error
        if self._ready is not None and not self._ready.done():
            self._ready.set_exception(error)
        for updates in self._updates:
            updates.wake()

    # ---- the mapping ----

    def _content(self) -> dict[bytes, bytes]:
        if self._failure is not None:
            raise self._failure.with_traceback(None)
        return self._payloads

    def __getitem__(self, key: str | bytes) -> V:
        return self._decode(self._content()[_encoded(key)])

    def __iter__(self) -> Iterator[str]:
        return map(_text, self._content())

    def __len__(self) -> int:
        return len(self._content())

    def __contains__(self, key: object) -> bool:
        return isinstance(key, str | bytes) and _encoded(key) in self._content()

    def _decode(self, payload: bytes) -> V:
        found: Any = payload if self._codec is None else self._codec.decode(payload)
        return found  # type: ignore[no-any-return]

    def updates(self) -> AsyncIterator[Change[V]]:
        """An iterator over changes from now on; it ends when the table is closed.

        Whoever takes changes more slowly than they come gets the newest one of each key, so that no
        more than one per key is kept. It raises the error that stopped the table, if one did.

        >>> async for change in prices.updates():
        ...     print(change.key, change.value)
        """
        self._content()
        updates = _Updates(self)
        self._updates.add(updates)
        return updates

    # ---- following ----

    async def _follow(self, part: str) -> None:
        try:
            goal: int | None = (await self._read(part, Start.latest())).next_offset
            position = 0
            while True:
                if goal is not None and position >= goal:
                    goal = None
                    self._loaded()
                result = await self._read(part, Start.offset(position))
                for batch in result:
                    self._apply(batch)
                # A former owner that does not know yet that it is one may be behind.
                position = max(position, result.next_offset)
                if result.at_end:
                    await self._runtime.clock.sleep(self._options.poll_seconds)
        except SulinaError as error:
            self._stop(error)

    async def _read(self, part: str, start: Start) -> ReadResult:
        """Read, trying again for the reconnect timeout."""
        backoff = RetryDelay(self._runtime.random)
        clock = self._runtime.clock
        began = clock.now()
        while True:
            seconds = self._client.operation_timeout
            try:
                attempt = read_part(self._topics, part, start, MAX_RECORDS, _READ_BYTES)
                return await within(clock, seconds, attempt)
            except (TimeoutError, SulinaError) as error:
                given_up = clock.now() - began > self._client.reconnect_timeout
                if isinstance(error, TimeoutError):
                    if given_up:
                        raise Overloaded(f"{part} could not be read in {seconds:g} s") from None
                elif given_up or not may_retry(error):
                    raise
            await self._topics.pause(backoff.next())

    def _loaded(self) -> None:
        self._loading -= 1
        if not self._loading and self._ready is not None and not self._ready.done():
            self._ready.set_result(None)

    def _apply(self, batch: Batch) -> None:
        keys = batch.keys
        if keys is None:
            return
        attributes, kept, updates = batch.attributes, self._payloads, list(self._updates)
        for at, (key, payload) in enumerate(zip(keys, batch.payloads, strict=True)):
            if key is None:
                continue
            before = kept.get(key)
            gone = attributes is not None and is_tombstone(payload, attributes[at])
            if gone:
                if before is None:
                    continue
                del kept[key]
                self._bytes -= len(key) + len(before)
            else:
                kept[key] = payload
                self._bytes += len(payload) - (-len(key) if before is None else len(before))
            for each in updates:
                each.put(key, None if gone else payload, batch.offsets[at])
        if self._bytes > self._options.max_bytes:
            raise Overloaded(
                f"the keys and values of {self.topic} take more than {self._options.max_bytes} "
                "bytes: pass a larger max_bytes, or split the topic into several"
            )


class _Updates(Generic[V]):
    """Iterates over a table's changes. Leaving the loop early leaves nothing to clean up."""

    def __init__(self, table: Table[V]) -> None:
        self._table = table
        self._waiting: dict[bytes, tuple[bytes | None, int]] = {}
        self._some = asyncio.Event()

    def put(self, key: bytes, payload: bytes | None, offset: int) -> None:
        self._waiting.pop(key, None)  # so that changes come in the order of the newest ones
        self._waiting[key] = payload, offset
        self._some.set()

    def wake(self) -> None:
        self._some.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change[V]:
        table = self._table
        while not self._waiting:
            if isinstance(table._failure, Closed):
                raise StopAsyncIteration
            table._content()
            self._some.clear()
            await self._some.wait()
        key = next(iter(self._waiting))
        payload, offset = self._waiting.pop(key)
        return Change(_text(key), None if payload is None else table._decode(payload), offset)


def _text(key: bytes) -> str:
    return key.decode(errors="surrogateescape")


def _encoded(key: str | bytes) -> bytes:
    return as_key(key) if isinstance(key, bytes) else key.encode(errors="surrogateescape")
