"""Reads entries from the journal files, and verifies every checksum on every read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from storage_grpc.entries import Entry
from storage_grpc.journal.files import OpenFiles
from storage_grpc.journal.format import IMAGE_SIZE, RecordKind, file_name, record_size, unpack_image
from storage_grpc.journal.index import Index
from sulina.errors import CorruptEntry, NotFound

_BRIDGE = 32 << 10
"""Up to this many bytes between two entries are read along: cheaper than another read."""


class _RecordPlace(NamedTuple):
    entry: int
    file: int
    position: int
    length: int

    @property
    def end(self) -> int:
        return self.position + record_size(self.length)


class JournalReader:
    """Reads entries in the index. Calls may overlap with each other and with appends."""

    def __init__(self, index: Index, files: OpenFiles, read_bytes: int) -> None:
        self._index = index
        self._files = files
        self._read_bytes = read_bytes

    async def read(
        self, ledger: int, first: int, max_entries: int, max_bytes: int, head: int | None
    ) -> list[Entry]:
        """Consecutive entries from ``first`` on; see ``EntryStore.read``."""
        places = self._choose(ledger, first, max_entries, max_bytes, head)
        if not places:
            raise self._index.missing(ledger, first)
        entries: list[Entry] = []
        for span in self._spans(places):
            try:
                entries.extend(await self._read_span(ledger, span, head))
            except _Damaged as damaged:
                entries.extend(damaged.before)
                if entries:
                    break
                raise CorruptEntry(
                    f"entry {first} of ledger {ledger} is damaged in "
                    f"{file_name(span[0].file)}: read it from another node"
                ) from None
            except NotFound:
                # The ledger may have been deleted in the meantime, and its file with it.
                if self._index.ledgers.get(ledger) is None:
                    raise self._index.missing(ledger, first) from None
                raise CorruptEntry(
                    f"entry {span[0].entry} of ledger {ledger} is lost with "
                    f"{file_name(span[0].file)}: read it from another node"
                ) from None
        return entries

    async def payload(self, ledger: int, entry: int) -> memoryview | bytes | None:
        """The payload of one entry; None if it is not in the index. Raises ``CorruptEntry``."""
        known = self._index.ledgers.get(ledger)
        if known is None or known.runs.find(entry) is None:
            return None
        return (await self.read(ledger, entry, 1, 0, None))[0].payload

    def _choose(
        self, ledger: int, first: int, max_entries: int, max_bytes: int, head: int | None
    ) -> list[_RecordPlace]:
        known = self._index.ledgers.get(ledger)
        places: list[_RecordPlace] = []
        size = 0
        if known is None:
            return places
        for place in map(_RecordPlace._make, known.runs.walk(first)):
            size += place.length if head is None else min(head, place.length)
            if places and (len(places) >= max_entries or size > max_bytes):
                break
            places.append(place)
        return places

    def _spans(self, places: list[_RecordPlace]) -> Iterator[list[_RecordPlace]]:
        """Group records for one read each: close to each other in one file, within the limit."""
        span = [places[0]]
        for place in places[1:]:
            last = span[-1]
            if (
                place.file == last.file
                and 0 <= place.position - last.end <= _BRIDGE
                and place.end - span[0].position <= self._read_bytes
            ):
                span.append(place)
            else:
                yield span
                span = [place]
        yield span

    async def _read_span(
        self, ledger: int, span: list[_RecordPlace], head: int | None
    ) -> list[Entry]:
        file = self._index.files.get(span[0].file)
        if file is None:
            raise NotFound(f"{file_name(span[0].file)} was removed")
        start = span[0].position
        async with self._files.use(file.sequence) as handle:
            data = memoryview(await handle.read(start, span[-1].end - start))
        entries: list[Entry] = []
        for place in span:
            found = _verify(data, place.position - start, file.salt, ledger, place)
            if found is None:
                raise _Damaged(entries)
            lac, payload = found
            # A copy of the few requested bytes releases the buffer that was verified.
            kept = payload if head is None else bytes(payload[:head])
            entries.append(Entry(ledger, place.entry, lac, kept))
        return entries


class _Damaged(Exception):
    """A record failed its checksum; ``before`` are the valid ones read before it."""

    def __init__(self, before: list[Entry]) -> None:
        self.before = before


def _verify(
    data: memoryview, offset: int, salt: int, ledger: int, place: _RecordPlace
) -> tuple[int, memoryview] | None:
    """LAC and payload of the record at ``offset``, from its first intact image."""
    payload = data[offset + IMAGE_SIZE : offset + IMAGE_SIZE + place.length]
    for at in (offset, offset + record_size(place.length) - IMAGE_SIZE):
        image = unpack_image(data, at, salt)
        if (
            image is not None
            and image.kind == RecordKind.ENTRY
            and (image.ledger, image.entry) == (ledger, place.entry)
            and (image.position, image.length) == (place.position, place.length)
        ):
            sound = len(payload) == place.length and crc32c(payload) == image.payload_crc
            return (image.lac, payload) if sound else None
    return None
