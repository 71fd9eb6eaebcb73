"""Handlers that find messages by key or text, and that publish dead letters again.

A search looks at a bounded amount of data per call and says where to continue. It opens frames in
a thread, because a small frame may decompress to many megabytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from itertools import groupby
from typing import Final

from broker_containers.broker.broker import Broker
from broker_containers.operations.messages import answer_bytes, check_size, stored_message
from broker_containers.operations.running import handles
from broker_containers.quotas.rates import Direction
from broker_containers.schemas.format import Format
from broker_containers.schemas.registry import SchemaRegistry
from broker_containers.schemas.showing import as_json
from broker_containers.schemas.steps import TooManySteps
from broker_containers.security.access import ACTING, of_topic
from broker_containers.topic_log.tail_cache import CachedFrame
from broker_containers.topics.topic import Topic
from sulina.errors import SulinaError
from sulina.model import Action, Start
from sulina.names import TopicName
from sulina.operations.client import AdminClient
from sulina.operations.messages import (
    FoundMessage,
    FoundMessages,
    MessageOperations,
    NewMessage,
    ReplayedLetters,
    StoredMessage,
)
from sulina.runtime.seam import RunBlocking
from sulina.wire.decode import Frame

_EARLIEST: Final = Start.earliest()
_MOST_SCANNED: Final = 64 << 20
"""Bytes to decompress for one answer."""
_READ_BYTES: Final = 1 << 20
_WINDOW: Final = 20_000
"""Messages to read forwards at once while searching backwards."""
_SHOWN_BYTES: Final = 16 << 10
"""Of a payload; longer ones are cut."""
_ORIGIN: Final = "x-original-topic"
_ADDED: Final = frozenset(
    {
        _ORIGIN,
        "x-original-subscription",
        "x-original-producer-id",
        "x-original-broker-addr",
        "x-original-topic-offset",
        "x-original-publish-time",
        "x-poison-policy",
        "x-delivery-attempt",
        "x-failure-reason",
    }
)


class MessageSearchHandlers:
    """Reads topics that this broker owns; ``admin`` reaches others."""

    def __init__(
        self,
        broker: Broker,
        admin: AdminClient,
        registry: SchemaRegistry,
        run_blocking: RunBlocking,
    ) -> None:
        self._broker = broker
        self._admin = admin
        self._registry = registry
        self._run_blocking = run_blocking

    @handles(MessageOperations.search)
    async def search(
        self,
        topic: str,
        *,
        key: str = "",
        text: str = "",
        start: Start = _EARLIEST,
        before: int | None = None,
        newest_first: bool = False,
        limit: int = 50,
    ) -> FoundMessages:
        found = await self._broker.topic(TopicName.parse(topic), create=False)
        first = await found.resolve(start)
        end = found.log.end if before is None else min(before, found.log.end)
        limit = min(limit, self._broker.settings.http.max_peek_messages)
        search = _Search(
            key.encode(), text.encode(), limit, self._broker.settings.http.max_peek_bytes
        )
        if newest_first:
            following = await self._backwards(found, first, end, search)
            at_end, done = following <= first, (following, end)
        else:
            following = await self._forwards(found, first, end, search)
            at_end, done = following >= end, (first, following)
        quotas = self._broker.quotas
        await quotas.pace(
            Direction.DISPATCH,
            quotas.where(found.name.namespace, ""),
            len(search.taken),
            sum(message.size for message in search.taken),
        )
        return FoundMessages(
            topic=str(found.name),
            messages=tuple(await self._shown(search.taken)),
            next_offset=max(following, 0),
            at_end=at_end,
            scanned=search.looked_at(*done),
            start_offset=found.log.start,
            end_offset=found.log.end,
        )

    async def _forwards(self, found: Topic, first: int, end: int, search: _Search) -> int:
        """Where to continue."""
        reader, at = found.log.reader(first), first
        while at < end and not search.full:
            frames = await reader.read(_READ_BYTES)
            if not frames:
                return end
            matches, at = await self._run_blocking(partial(search.scan, frames, at, end))
            for message in matches:
                if not search.take(message):
                    return message.offset
        return at

    async def _backwards(self, found: Topic, first: int, end: int, search: _Search) -> int:
        """Reads windows forwards, each one before the last, as frames can only be read so."""
        high, window = end, search.limit if search.everything else _WINDOW
        while high > first and not search.full:
            low, before = max(first, high - window), search.opened
            matches = await self._window(found, low, high, search)
            if matches is None:  # its messages are large
                window = max(window // 16, 1)
                search.opened = before
                search.forget(high)
                continue
            for message in reversed(matches):
                if not search.take(message):
                    return message.offset + 1
            high = low
        return high

    async def _window(
        self, found: Topic, low: int, high: int, search: _Search
    ) -> list[FoundMessage] | None:
        """The matches in a window; None if it has more than one message and too many bytes."""
        reader, at, before = found.log.reader(low), low, search.opened
        matches: list[FoundMessage] = []
        while at < high:
            if search.opened - before > _MOST_SCANNED and high - low > 1:
                return None
            frames = await reader.read(_READ_BYTES)
            if not frames:
                break
            more, at = await self._run_blocking(partial(search.scan, frames, at, high))
            matches += more
        return matches

    async def _shown(self, messages: Sequence[FoundMessage]) -> list[FoundMessage]:
        formats: dict[tuple[int, int], Format | SulinaError] = {}
        found = []
        for message in messages:
            if message.schema_id and message.size <= _SHOWN_BYTES:
                place = message.schema_id, message.schema_version
                if place not in formats:
                    formats[place] = await self._format(*place)
                decode = partial(_decoded, message, formats[place])
                found.append(await self._run_blocking(decode))
            else:
                found.append(message)
        return found

    async def _format(self, schema_id: int, version: int) -> Format | SulinaError:
        try:
            schema = await self._registry.get(schema_id, version or None)
            return await self._registry.format_of(schema.version)
        except SulinaError as error:
            return error

    @handles(MessageOperations.replay)
    async def replay(
        self, topic: str, *, start: Start = _EARLIEST, limit: int = 100
    ) -> ReplayedLetters:
        peeked = await self._admin.messages.peek(topic, start=start, limit=limit)
        letters = [each for each in peeked.messages if each.attributes.get(_ORIGIN)]
        access = ACTING.get()
        for origin in {each.attributes[_ORIGIN] for each in letters}:
            access.check(of_topic(Action.PRODUCE, TopicName.parse(origin)))
        sent: Counter[str] = Counter()
        for (origin, _, _), group in groupby(letters, key=_destination):
            again = [_again(letter) for letter in group]
            await self._admin.messages.publish(origin, again)
            sent[origin] += len(again)
        return ReplayedLetters(
            replayed=len(letters),
            left_out=len(peeked.messages) - len(letters),
            topics=sent,
            next_offset=peeked.next_offset,
            at_end=peeked.at_end,
        )


def _destination(letter: StoredMessage) -> tuple[str, int, int]:
    return letter.attributes[_ORIGIN], letter.schema_id, letter.schema_version


def _again(letter: StoredMessage) -> NewMessage:
    attributes = {name: text for name, text in letter.attributes.items() if name not in _ADDED}
    return NewMessage(
        letter.payload, letter.key, attributes, letter.schema_id, letter.schema_version
    )


def _decoded(message: FoundMessage, understood: Format | SulinaError) -> FoundMessage:
    if isinstance(understood, SulinaError):
        return replace(message, undecoded=str(understood))
    try:
        return replace(message, decoded=as_json(understood, message.payload))
    except TooManySteps:
        return replace(message, undecoded="decoding it takes too long")
    except SulinaError as error:
        return replace(message, undecoded=str(error))


class _Search:
    """What to look for, what was found, and how much more may be looked at."""

    def __init__(self, key: bytes, text: bytes, limit: int, room: int) -> None:
        self._key = key
        self._text = text
        self.limit = limit
        self._room = room
        self.everything = not key and not text
        self._ranges: list[tuple[int, int]] = []
        """Offsets of the messages that were looked at."""
        self.opened = 0
        """Bytes that were decompressed."""
        self.taken: list[FoundMessage] = []
        self._no_room = False

    @property
    def full(self) -> bool:
        return self._no_room or self.opened >= _MOST_SCANNED

    def _add(self, low: int, high: int) -> None:
        if self._ranges and self._ranges[-1][1] == low:
            low = self._ranges.pop()[0]
        self._ranges.append((low, high))

    def forget(self, end: int) -> None:
        """Messages below ``end`` will be looked at again."""
        self._ranges = [each for each in self._ranges if each[0] >= end]

    def looked_at(self, first: int, end: int) -> int:
        """Messages from ``first`` to ``end``; the next page looks at the others again."""
        return sum(max(min(high, end) - max(low, first), 0) for low, high in self._ranges)

    def scan(
        self, frames: Sequence[CachedFrame], at: int, end: int
    ) -> tuple[list[FoundMessage], int]:
        """The matches in ``frames`` at offsets from ``at`` to ``end``, and the offset after them.

        Raises ``TooLarge`` for a batch that is too large to open.
        """
        matches: list[FoundMessage] = []
        for frame in frames:
            if frame.base >= end:
                return matches, end
            check_size(frame)
            opened = Frame(frame.data)
            self.opened += frame.header.raw_length
            low, high = max(at - frame.base, 0), min(end - frame.base, opened.count)
            self._add(frame.base + low, frame.base + high)
            if self.everything or self._possible(opened):
                matches += [
                    _found(opened, index)
                    for index in range(low, high)
                    if self.everything or self._matches(opened, index)
                ]
            at = frame.base + high
        return matches, at

    def _possible(self, frame: Frame) -> bool:
        """Whether a message of the frame may match; most frames are left out by this."""
        if self._key and (frame.keys is None or self._key not in frame.keys):
            return False
        if not self._text or frame.attributes:
            return True
        text = self._text
        return any(text in each for each in frame.payloads) or any(
            text in each for each in frame.keys or () if each is not None
        )

    def _matches(self, frame: Frame, index: int) -> bool:
        key = frame.keys[index] if frame.keys else None
        if self._key and key != self._key:
            return False
        if not self._text or self._text in frame.payloads[index] or self._text in (key or b""):
            return True
        attributes = frame.attributes[index] if frame.attributes else {}
        return any(self._text in f"{name}={text}".encode() for name, text in attributes.items())

    def take(self, message: FoundMessage) -> bool:
        """Add a match to the answer; False if there is no room for it."""
        size = answer_bytes(message)
        if self.taken and (len(self.taken) == self.limit or size > self._room):
            self._no_room = True
            return False
        self._room -= size
        self.taken.append(message)
        return True


def _found(frame: Frame, index: int) -> FoundMessage:
    message = asdict(stored_message(frame, index))
    payload = message.pop("payload")
    return FoundMessage(**message, payload=payload[:_SHOWN_BYTES], size=len(payload))
