"""What is stored: the service of storage nodes, journal files, objects of the lake."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from crc32c import crc32c

from storage_grpc import storage_pb2 as pb
from storage_grpc.entries import Entry
from storage_grpc.journal import JournalSettings, JournalStore
from storage_grpc.journal.contents import Contents, pack_contents
from storage_grpc.journal.format import (
    ALIGN,
    CONTROL_CRC,
    CONTROL_PAYLOAD,
    DATA_START,
    IMAGE_SIZE,
    FileHeader,
    JournalState,
    KnownFile,
    RecordKind,
    file_name,
    index_name,
    pack_header,
    pack_image,
    pack_state,
    record_size,
)
from storage_grpc.loss_record import LossRecord
from storage_grpc.memory_store import MemoryEntryStore
from storage_grpc.remote.wire.layout import ENTRY_OVERHEAD, pack_entries
from storage_grpc.remote.wire.service import INCARNATION_KEY, SERVICE
from storage_grpc.service.server import Identity, StorageServer
from sulina.errors import CorruptEntry, NotFound, Refused
from sulina.lake.decoder import NeedMore, Verifier, open_footer
from sulina.lake.encoder import EncoderSettings
from sulina.lake.footer_checksum import FOOTER_CHECKSUM_SIZE, footer_checksum
from sulina.runtime.memory_disk import MemoryDisk
from sulina.wire.header import check_frame
from tests.fuzz.target import Stateless, Target, calls, filled, pack_call
from tests.fuzz.world import FakeContext, FuzzLoop, WorldSession, no_grpc_server
from tests.lake.ledgers import decode, encode, ledger_of
from tests.simulation.clock import SimClock
from tests.wire.records import delayed_sample, sample

# ---- the service of storage nodes ----

_REQUESTS: Final = {
    "Hello": pb.HelloRequest,
    "Read": pb.ReadRequest,
    "RecoveryRead": pb.RecoveryReadRequest,
    "Fence": pb.FenceRequest,
    "Delete": pb.DeleteRequest,
    "List": pb.ListRequest,
    "Stat": pb.StatRequest,
    "Many": pb.ManyRequest,
    "Offload": pb.OffloadRequest,
    "ReadTiered": pb.ReadTieredRequest,
    "ReadControl": pb.ReadControlRequest,
    "VerifyTiered": pb.VerifyTieredRequest,
    "DeleteTiered": pb.DeleteTieredRequest,
}
_NAMES: Final = list(_REQUESTS)
_APPEND: Final = len(_NAMES)
_APPEND_SEALED: Final = _APPEND + 1
"""An Append whose checksums are made to match."""
_INCARNATION: Final = "0123456789abcdef" * 2


class _NodeWorld:
    """A storage node over an empty store."""

    def __init__(self) -> None:
        self.store = MemoryEntryStore()
        identity = Identity("node", _INCARNATION, LossRecord(may_have_lost=False), 1 << 20)
        with no_grpc_server() as self.handlers:
            self._server = StorageServer(identity, self.store)

    async def __aenter__(self) -> _NodeWorld:
        await self._server.start("127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.stop(1)
        await self.store.close()

    async def append(self, message: bytes) -> None:
        async def messages() -> AsyncIterator[bytes]:
            yield message

        context = FakeContext({INCARNATION_KEY: _INCARNATION})
        handler = self.handlers.find(f"/{SERVICE}/Append").stream_stream
        await self.handlers.ended(handler(messages(), context), context)


class _NodeSession(WorldSession):
    def _new_world(self) -> Any:
        self._loop.run_until_complete(asyncio.sleep(0))
        return self._loop.run_until_complete(_made())


async def _made() -> _NodeWorld:
    return _NodeWorld()


async def _node(world: _NodeWorld) -> Callable[[bytes], Awaitable[None]]:
    metadata = {INCARNATION_KEY: _INCARNATION}

    async def feed(data: bytes) -> None:
        for method, request in calls(data, _APPEND_SEALED + 1):
            if method < _APPEND:
                await world.handlers.call(f"/{SERVICE}/{_NAMES[method]}", request, metadata)
            else:
                await world.append(_sealed_entries(request) if method > _APPEND else request)

    return feed


def _sealed_entries(message: bytes) -> bytes:
    """The same entries with checksums that match, as far as there are entries."""
    data = bytearray(message)
    at = 1
    while at < len(data) and data[at] >= 0x80:
        at += 1
    at += 1
    while at + ENTRY_OVERHEAD <= len(data):
        fields = bytes(data[at : at + ENTRY_OVERHEAD - 4])
        end = at + ENTRY_OVERHEAD + int.from_bytes(fields[-4:], "little")
        crc = crc32c(bytes(data[at + ENTRY_OVERHEAD : end]), crc32c(fields))
        struct.pack_into("<I", data, at + ENTRY_OVERHEAD - 4, crc)
        at = end
    return bytes(data)


def _node_seeds() -> list[bytes]:
    requests = [
        pack_call(number, filled(kind).SerializeToString())
        for number, kind in enumerate(_REQUESTS.values())
    ]
    entries = pack_entries([Entry(1, number, number - 1, b"payload") for number in range(3)])
    appended = pack_call(_APPEND, entries)
    many = pb.ManyRequest(
        asks=[
            pb.Ask(fence=pb.FenceRequest(ledger=1)),
            pb.Ask(read=pb.ReadRequest(ledger=1, max_entries=9, max_bytes=1 << 20)),
            pb.Ask(),
        ]
    )
    batch = pack_call(_NAMES.index("Many"), many.SerializeToString())
    return [
        *requests,
        appended,
        pack_call(_APPEND_SEALED, entries),
        appended + batch,
        appended + b"".join(requests),
    ]


# ---- journal files ----

_SALT: Final = 0x5EED_5EED_5EED_5EED
_NODE: Final = bytes(range(16))
_JOURNAL: Final = JournalSettings(
    file_bytes=64 << 10,
    reserve_bytes=16 << 10,
    spare_bytes=16 << 10,
    group_bytes=16 << 10,
    max_pending_bytes=64 << 10,
    max_entry_bytes=64 << 10,
    read_bytes=8 << 10,
    open_files=2,
)
_SEAL, _FIRST_HEADER, _SECOND_HEADER, _LATER_FILE, _INDEX_FILE = (1 << bit for bit in range(5))


def fuzz_journal(data: bytes) -> None:
    """A folder with a journal file of these records opens, or is ``Refused``; all entries can be
    read or are ``CorruptEntry``. Opened once more, it has the same entries.

    The first byte selects: checksums that match, damaged headers, a later file that states where
    this one ends, or that the bytes are those of the index file.
    """
    loop = FuzzLoop()
    try:
        loop.run_until_complete(_open_twice(loop, data[:1], data[1:]))
        assert not loop.errors, loop.errors
    finally:
        loop.finish()


async def _open_twice(loop: FuzzLoop, first: bytes, data: bytes) -> None:
    disk = await _disk(first[0] if first else 0, data)
    try:
        before = await _entries(loop, disk)
        after = await _entries(loop, disk)
    except Refused:
        return
    assert before == after, (before, after)


async def _entries(loop: FuzzLoop, disk: MemoryDisk) -> dict[int, list[tuple[int, bytes]] | str]:
    store = await JournalStore.open(disk, SimClock(loop), _JOURNAL, random.Random(1))
    found: dict[int, list[tuple[int, bytes]] | str] = {}
    try:
        for ledger in store.ledgers():
            try:
                entries = await store.read(ledger, 0, max_entries=1 << 30, max_bytes=1 << 30)
                found[ledger] = [(each.entry, bytes(each.payload)) for each in entries]
            except (CorruptEntry, NotFound) as error:
                found[ledger] = type(error).__name__
    finally:
        await store.close()
    return found


async def _disk(flags: int, data: bytes) -> MemoryDisk:
    if flags & _SEAL:
        data = _sealed_index(data) if flags & _INDEX_FILE else _sealed_images(data)
    header = bytearray(pack_header(FileHeader(1, _SALT, _NODE)))
    if flags & _FIRST_HEADER:
        header[0] ^= 1
    if flags & _SECOND_HEADER:
        header[DATA_START // 2] ^= 1
    disk = MemoryDisk()
    records = _records() if flags & _INDEX_FILE else data
    await disk.replace(file_name(1), bytes(header) + records)
    if flags & _INDEX_FILE:
        await disk.replace(index_name(1), data)
    if flags & _LATER_FILE:
        state = JournalState(files=[KnownFile(1, _SALT, DATA_START + len(records))])
        later = pack_header(FileHeader(2, _SALT + 1, _NODE)) + _record(
            DATA_START, RecordKind.STATE, 0, 0, -1, pack_state(state), _SALT + 1
        )
        await disk.replace(file_name(2), later)
    return disk


def _sealed_images(data: bytes) -> bytes:
    """The same records with checksums that match their images."""
    result = bytearray(data)
    magic = pack_image(0, _SALT, 0, 0, 0, 0, 0, 0, 0)[4:6]
    for at in range(0, len(result) - IMAGE_SIZE + 1, ALIGN):
        if result[at + 4 : at + 6] == magic:
            crc = crc32c(bytes(result[at + 4 : at + IMAGE_SIZE]))
            struct.pack_into("<I", result, at, crc)
    return bytes(result)


def _sealed_index(data: bytes) -> bytes:
    return data[:-4] + crc32c(data[:-4]).to_bytes(4, "little") if len(data) >= 4 else data


def _record(
    at: int, kind: int, ledger: int, entry: int, lac: int, payload: bytes, salt: int = _SALT
) -> bytes:
    crc = CONTROL_CRC if payload is CONTROL_PAYLOAD else crc32c(payload)
    image = pack_image(kind, salt, at, at, ledger, entry, lac, len(payload), crc)
    padding = bytes(record_size(len(payload)) - 2 * IMAGE_SIZE - len(payload))
    return image + payload + padding + image


def _records(*, control: bool = False) -> bytes:
    wanted: list[tuple[int, int, int, int, bytes]] = [
        (RecordKind.STATE, 0, 0, -1, pack_state(JournalState(fenced={9: 3}, deleted=[8]))),
        *((RecordKind.ENTRY, 1, entry, entry - 1, b"payload %d" % entry) for entry in range(3)),
        (RecordKind.ENTRY, 2, 5, 4, b""),
    ]
    if control:
        wanted += [
            (RecordKind.FENCE, 1, 0, 1, CONTROL_PAYLOAD),
            (RecordKind.DELETE, 2, 0, -1, CONTROL_PAYLOAD),
            (RecordKind.STOP, 0, 0, -1, b""),
        ]
    result = b""
    for each in wanted:
        result += _record(DATA_START + len(result), *each)
    return result


def _journal_seeds() -> list[bytes]:
    plain, whole = _records(), _records(control=True)
    contents = Contents(FileHeader(1, _SALT, _NODE), DATA_START + len(plain), stopped=True)
    contents.state = JournalState(fenced={9: 3}, deleted=[8])
    position = DATA_START + record_size(len(pack_state(contents.state)))
    for entry in range(3):
        contents.add(1, entry, entry - 1, position, len(b"payload 0"))
        position += record_size(len(b"payload 0"))
    index = pack_contents(contents)
    flags = [0, _SEAL, _SEAL | _LATER_FILE, _SEAL | _FIRST_HEADER]
    return [
        *(bytes([flag]) + plain for flag in flags),
        bytes([_SEAL]) + whole,
        bytes([_FIRST_HEADER | _SECOND_HEADER | _LATER_FILE]) + plain,
        bytes([_INDEX_FILE]) + index,
        bytes([_INDEX_FILE | _SEAL]) + index,
    ]


# ---- objects of the lake ----

_ENDING: Final = 8


def fuzz_lake(data: bytes) -> None:
    """An object is decoded, or ``CorruptEntry`` or ``Refused``; what is decoded are whole frames.

    If the first byte is odd, the footer's checksum is made to match.
    """
    data = _sealed_footer(data[1:]) if data[:1] and data[0] & 1 else data[1:]
    try:
        frames = decode(data) if _footer_is_within(data) else []
        footer = open_footer(data, len(data))
        assert not isinstance(footer, NeedMore)
        verifier = Verifier(footer)
        for group in footer.row_groups:
            verifier.add(group, data[group.start : group.end])
        verifier.finish()
    except (CorruptEntry, Refused):
        return
    for frame in frames:
        check_frame(frame)


def _footer_is_within(data: bytes) -> bool:
    """Asking for more bytes than there are must not go on forever."""
    asked = open_footer(data[-16:], len(data))
    return not isinstance(asked, NeedMore) or asked.length <= len(data)


def _sealed_footer(data: bytes) -> bytes:
    length = int.from_bytes(data[-_ENDING:-4], "little") + _ENDING
    at = len(data) - length - FOOTER_CHECKSUM_SIZE
    if at < 0:
        return data
    return data[:at] + footer_checksum(data[-length:]) + data[-length:]


def _lake_seeds() -> list[bytes]:
    ledgers = [
        ledger_of([]),
        ledger_of([sample()]),
        ledger_of([sample(), b"control", delayed_sample()], first_offset=70),
    ]
    objects = [encode(ledger, EncoderSettings())[0] for ledger in ledgers]
    return [flag + each for each in objects for flag in (b"\0", b"\1")]


TARGETS = [
    Target(
        name="storage",
        summary="calls and appends to a storage node",
        seeds=_node_seeds,
        open=lambda: _NodeSession(_node),
        messages=[*_REQUESTS.values(), None, None],
        inputs_per_session=200,
    ),
    Target(
        name="journal",
        summary="a journal file or its index file, opened for recovery",
        seeds=_journal_seeds,
        open=lambda: Stateless(fuzz_journal),
        max_bytes=16 << 10,
    ),
    Target(
        name="lake",
        summary="an object of the lake: footer, row groups, frames",
        seeds=_lake_seeds,
        open=lambda: Stateless(fuzz_lake),
        max_bytes=32 << 10,
        memory_mib=256,
    ),
]
