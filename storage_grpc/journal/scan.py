"""Scans one journal file: what it holds, and where it ends.

A record is sound if its payload matches the checksum in either of its two images. At the first
place that is not sound there are two explanations. A torn tail: the bytes never became durable,
nothing in them was acknowledged, and the file is cut there. Or damage: the bytes were durable once.
It is damage if something later proves it: an image further on whose ``synced`` position is higher,
or the end of the file as stated in a later file. Damage is skipped and reported, and everything
after it is kept. The other image of a damaged record still identifies it, unless both are damaged.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import NamedTuple

from crc32c import crc32c

from storage_grpc.journal.contents import Contents
from storage_grpc.journal.format import (
    ALIGN,
    DATA_START,
    IMAGE_SIZE,
    SALT_OFFSET,
    FileHeader,
    Image,
    RecordKind,
    unpack_image,
    unpack_state,
)
from sulina.runtime.seam import DiskFile

_SALT = Struct("<Q")


class _Stretch(NamedTuple):
    """A record, or bytes that are not a record."""

    start: int
    end: int
    image: Image | None
    sound: bool
    payload: memoryview


async def scan_file(
    file: DiskFile, header: FileHeader, known_end: int | None, chunk: int
) -> Contents:
    """The contents of the file.

    ``known_end`` is where its records end, if a later file states it; then everything before it
    was durable. Reads ``chunk`` bytes at a time, or one record if that is larger.
    """
    size = await file.size()
    limit = size if known_end is None else min(size, known_end)
    scan = _Scan(header, known_end or DATA_START)
    window = _FileWindow(file, limit, chunk)
    at = DATA_START
    while at < limit:
        place = await _next_place(window, at, header.salt)
        scan.note(place)
        at = place.end
    if known_end is not None and at < known_end:
        scan.note(_Stretch(at, known_end, None, False, memoryview(b"")))
    return scan.finish(at)


async def zeros_from(file: DiskFile, position: int, chunk: int) -> int:
    """Where the trailing zeros of the file begin; not before ``position``."""
    start, blank = position, bytes(chunk)
    while data := await file.read(position, chunk):
        # Comparing is many times faster than stripping, and nearly all of a prepared file is zeros.
        if data != blank[: len(data)]:
            start = position + len(data.rstrip(b"\0"))
        position += len(data)
    return start


async def _next_place(window: _FileWindow, at: int, salt: int) -> _Stretch:
    image = unpack_image(await window.get(at, IMAGE_SIZE), 0, salt)
    if image is None or image.position != at:
        image = await _search(window, at, salt)
        if image is None:
            return _Stretch(at, window.limit, None, False, memoryview(b""))
        if image.position != at:
            return _Stretch(at, image.position, None, False, memoryview(b""))
    payload = await window.get(at + IMAGE_SIZE, image.length)
    sound = len(payload) == image.length and crc32c(payload) == image.payload_crc
    # A damaged record may claim to be longer than the file.
    end = image.end if sound else min(image.end, window.limit)
    return _Stretch(at, end, image, sound, payload)


async def _search(window: _FileWindow, start: int, salt: int) -> Image | None:
    """The first intact image after ``start``: before a record, or after one."""
    needle = _SALT.pack(salt)
    at = start + ALIGN
    while at < window.limit:
        data = await window.get(at, window.chunk)
        found = bytes(data).find(needle, SALT_OFFSET)
        if found < 0:
            # The last bytes may be the start of an image that continues in the next chunk.
            at += max(ALIGN, len(data) - SALT_OFFSET - _SALT.size & -ALIGN)
            continue
        at += found - SALT_OFFSET
        if at % ALIGN == 0:
            image = unpack_image(await window.get(at, IMAGE_SIZE), 0, salt)
            if image is not None and (
                image.position == at or start <= image.position == at - _behind(image)
            ):
                return image
        at += ALIGN - at % ALIGN
    return None


def _behind(image: Image) -> int:
    """Distance of the second image of a record from its first."""
    return image.end - IMAGE_SIZE - image.position


class _Scan:
    """Collects the contents of a file, as soon as it is clear what is a torn tail."""

    def __init__(self, header: FileHeader, proven: int) -> None:
        self._contents = Contents(header, DATA_START, proven=proven)
        self._undecided: deque[_Stretch] = deque()
        """Bytes that are damage or a torn tail, and everything after them."""
        self._bad_states: list[tuple[int, int]] = []

    def note(self, place: _Stretch) -> None:
        if place.image is not None:
            self._contents.proven = max(self._contents.proven, place.image.synced)
        self._undecided.append(place)
        while self._undecided and (
            self._undecided[0].sound or self._undecided[0].start < self._contents.proven
        ):
            self._take(self._undecided.popleft())

    def finish(self, end: int) -> Contents:
        contents = self._contents
        contents.end = self._undecided[0].start if self._undecided else end
        if contents.state is None:
            contents.damage.extend(self._bad_states)
        return contents

    def _take(self, place: _Stretch) -> None:
        contents, image = self._contents, place.image
        contents.stopped = False
        if image is None:
            contents.damage.append((place.start, place.end))
            return
        contents.records += 1
        contents.corrupt += not place.sound
        match image.kind:
            case RecordKind.ENTRY:
                contents.add(image.ledger, image.entry, image.lac, image.position, image.length)
            case RecordKind.FENCE:
                contents.fenced[image.ledger] = image.lac
            case RecordKind.DELETE:
                contents.deleted.append(image.ledger)
            case RecordKind.DROP:
                contents.dropped.append(image.ledger)
            case RecordKind.STOP:
                contents.stopped = True
            case RecordKind.STATE:
                state = unpack_state(place.payload) if place.sound else None
                if state is None:
                    self._bad_states.append((place.start, place.end))
                else:
                    contents.state = state


class _FileWindow:
    """Reads a file forward in large chunks."""

    def __init__(self, file: DiskFile, limit: int, chunk: int) -> None:
        self._file = file
        self.limit = limit
        self.chunk = chunk
        self._start = 0
        self._data = b""

    async def get(self, position: int, length: int) -> memoryview:
        """``length`` bytes from ``position``; fewer at the limit."""
        length = max(0, min(length, self.limit - position))
        offset = position - self._start
        if offset < 0 or offset + length > len(self._data):
            wanted = min(max(length, self.chunk), self.limit - position)
            self._data = await self._file.read(position, wanted) if wanted > 0 else b""
            self._start, offset = position, 0
        return memoryview(self._data)[offset : offset + length]
