"""What must be true, kept apart from the broker: what was sent, acknowledged and received.

Records describe themselves (who sent them, and the how manyeth they are), so that everything can
be checked wherever a record turns up.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from sulina import Batch, Client, MessageId, Start

_FILLER = random.Random(1).randbytes(1 << 17)
_KEYS = 40


@dataclass(slots=True)
class Sender:
    """One producer's records: ``count`` were handed to the client so far."""

    name: str
    topic: str
    smallest: int = 0
    largest: int = 100
    keyed: bool = False
    count: int = 0
    acknowledged: dict[int, MessageId] = field(default_factory=dict)
    """What the client says is stored, and where."""

    def payload(self, number: int) -> bytes:
        """The payload of record ``number``."""
        head = b"%s %d " % (self.name.encode(), number)
        size = self.smallest + number * 7919 % (self.largest - self.smallest + 1)
        start = number * 31 % 1024
        return head + _FILLER[start : start + size]

    def key(self, number: int) -> bytes | None:
        """Its key."""
        return b"key-%d" % (number % _KEYS) if self.keyed else None


class Model:
    """Everything that one test sends and receives."""

    def __init__(self) -> None:
        self.senders: dict[str, Sender] = {}
        self.places: dict[str, dict[int, tuple[str, int]]] = defaultdict(dict)
        """Topic or partition -> offset -> sender and number, as anybody has seen it."""

    def sender(self, name: str, topic: str, **more: Any) -> Sender:
        """A further producer."""
        self.senders[name] = sender = Sender(name, topic, **more)
        return sender

    def check_batch(self, batch: Batch) -> list[tuple[str, int]]:
        """Sender and number of each record; every byte must be as it was sent, and no offset may
        ever show two different records."""
        keys = batch.keys or [None] * len(batch)
        places = self.places[batch.topic]
        found = []
        for offset, payload, key in zip(batch.offsets, batch.payloads, keys, strict=True):
            name, number = payload[:100].split(b" ", 2)[:2]
            sender = self.senders[name.decode()]
            it = sender.name, int(number)
            assert payload == sender.payload(it[1]), f"altered: {it} at {batch.topic}@{offset}"
            assert key == sender.key(it[1])
            assert places.setdefault(offset, it) == it, f"{batch.topic}@{offset} was {it} before"
            found.append(it)
        return found

    async def check_log(self, client: Client, topic: str) -> dict[str, int]:
        """Read all of a topic. Returns the number of records of each of its partitions.

        Offsets must have no gap, every record that any producer of the topic has sent must be
        there once, those of one producer in order, and where its ticket says.
        """
        info = await client.topic(topic)
        stored: dict[tuple[str, int], MessageId] = {}
        ends = {}
        for part, _ in info.parts:
            last: dict[str, int] = defaultdict(lambda: -1)
            offset, at_end = 0, False
            while not at_end:
                read = await client.read(part, Start.offset(offset), max_records=50_000)
                for batch in read:
                    for place, (name, number) in zip(
                        batch.offsets, self.check_batch(batch), strict=True
                    ):
                        assert place == offset, f"after {part}@{offset - 1} comes {place}"
                        offset += 1
                        where = f"{name} {number} at {part}@{place}"
                        assert (name, number) not in stored, f"{where} is there a second time"
                        assert number > last[name], f"{where} stands behind {last[name]}"
                        last[name] = number
                        stored[name, number] = MessageId(part, place)
                assert read.next_offset == offset
                at_end = read.at_end
            ends[part] = offset
        for sender in self.senders.values():
            if sender.topic != topic:
                continue
            for number in range(sender.count):
                there = stored.pop((sender.name, number), None)
                assert there is not None, f"{sender.name} {number} is lost"
                told = sender.acknowledged.get(number)
                if told is not None and told.offset >= 0:
                    assert there == told, f"{sender.name} {number} was to be at {told}"
        assert not stored, f"nobody sent {sorted(stored)[:10]}"
        return ends


class Received:
    """What the consumers of one subscription received from one topic or partition."""

    def __init__(self, *, in_order: bool = False, by_key: bool = False) -> None:
        self.acked: set[int] = set()
        """What the application acknowledged. Noted before it tells the client."""
        self._prefix = 0
        self._seen: set[int] = set()
        self._next = 0
        self._last_of_key: dict[object, int] = {}
        self._in_order = in_order
        self._by_key = by_key

    def take(self, batch: Batch, records: list[tuple[str, int]]) -> None:
        """Note a delivery. What comes for the first time must come in order, where that was
        promised: however often the broker dies, nothing is left out."""
        keys = batch.keys or [None] * len(batch)
        for offset, key, (name, _) in zip(batch.offsets, keys, records, strict=True):
            if offset in self._seen:
                continue
            self._seen.add(offset)
            if self._in_order:
                assert offset == self._next, f"{offset} came where {self._next} was due"
                self._next += 1
            if self._by_key:
                group = name if key is None else key
                last = self._last_of_key.get(group, -1)
                assert offset > last, f"{offset} of {group!r} came behind {last}"
                self._last_of_key[group] = offset

    def ack_up_to(self, offset: int) -> None:
        """The application acknowledges everything up to here."""
        self.acked.update(range(self.prefix, offset + 1))

    @property
    def prefix(self) -> int:
        """The first offset that the application has not acknowledged."""
        while self._prefix in self.acked:
            self._prefix += 1
        return self._prefix

    def check_cursor(self, description: dict[str, Any]) -> None:
        """The broker's cursor must not be past anything that was not acknowledged."""
        position = description["position"]
        assert position <= self.prefix, f"{description}: {self.prefix} is not acknowledged"
        for first, last in description["acked_above"]:
            loose = set(range(first, last + 1)) - self.acked
            assert not loose, f"{description}: {sorted(loose)[:10]} are not acknowledged"
