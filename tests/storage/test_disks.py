"""What both disks promise, and what only a real one does."""

from __future__ import annotations

import asyncio
import errno
import os
import random
import resource
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sulina.errors import NotFound, Refused, StorageFailed, StorageFull
from sulina.runtime import real_disk
from sulina.runtime.memory_disk import SECTOR, MemoryDisk
from sulina.runtime.real_clock import RealClock
from sulina.runtime.real_disk import RealDisk
from sulina.runtime.seam import Disk


@pytest.fixture(params=["memory", "folder"])
async def disk(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Disk]:
    opened: Disk = MemoryDisk() if request.param == "memory" else RealDisk(tmp_path / "data")
    yield opened
    await opened.close()


async def test_what_is_written_is_read(disk: Disk) -> None:
    file = await disk.open("a", create=True)
    await file.write(10, [b"abc", bytearray(b"de"), memoryview(b"xfx")[1:2], b""], sync=True)
    assert file.name == "a"
    assert await file.size() == 16
    assert await file.read(0, 100) == bytes(10) + b"abcdef"
    assert await file.read(12, 2) == b"cd"
    assert await file.read(16, 5) == b""
    await file.close()


async def test_thousands_of_buffers_go_out_in_one_call(disk: Disk) -> None:
    file = await disk.open("a", create=True)
    buffers = [b"%d," % i for i in range(5000)]
    await file.write(0, buffers, sync=False)
    await file.sync()
    assert await file.read(0, 1 << 20) == b"".join(buffers)
    await file.close()


async def test_reserved_space_reads_as_zeros_and_never_shrinks_a_file(disk: Disk) -> None:
    file = await disk.open("a", create=True)
    await file.write(0, [b"abc"], sync=False)
    await file.reserve(10_000)
    await file.reserve(100)
    assert await file.size() == 10_000
    assert await file.read(0, 10) == b"abc" + bytes(7)
    await file.truncate(2)
    assert await file.read(0, 10) == b"ab"
    await file.truncate(4)
    assert await file.read(0, 10) == b"ab\0\0"
    await file.close()


async def test_zeros_written_ahead_are_durable_and_leave_the_rest_alone(disk: Disk) -> None:
    file = await disk.open("a", create=True)
    await file.write(0, [b"abc"], sync=True)
    await file.reserve(1 << 20)
    await file.prewrite(4096, (2 << 20) + 5)
    assert await file.size() == 4096 + (2 << 20) + 5
    assert (await file.read(0, 1 << 30)).rstrip(b"\0") == b"abc"
    if isinstance(disk, MemoryDisk):
        lost_power = disk.crash(random.Random(1))
        assert len(lost_power.content("a")) == 4096 + (2 << 20) + 5
    await file.close()


async def test_files_are_listed_replaced_and_removed(disk: Disk) -> None:
    assert await disk.list() == []
    await (await disk.open("b", create=True)).close()
    await disk.replace("a", b"old")
    await disk.replace("a", memoryview(b"new"))
    assert await disk.list() == ["a", "b"]
    file = await disk.open("a")
    assert await file.read(0, 9) == b"new"
    await disk.remove("a")
    await disk.remove("a")
    assert await disk.list() == ["b"]
    assert await file.read(0, 9) == b"new"
    await file.close()
    with pytest.raises(NotFound):
        await disk.open("a")


async def test_names_stay_inside_the_folder(disk: Disk) -> None:
    for name in ("../a", "a/b", "", "/etc/passwd"):
        with pytest.raises(Refused):
            await disk.open(name, create=True)


async def test_a_folder_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    first = RealDisk(tmp_path)
    with pytest.raises(Refused, match=f"another process uses the folder {tmp_path}"):
        RealDisk(tmp_path)
    program = (
        "import sys; from sulina.runtime.real_disk import RealDisk\n"
        "from sulina.errors import Refused\n"
        "try: RealDisk(sys.argv[1])\n"
        "except Refused as error: sys.exit(str(error))\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert f"another process uses the folder {tmp_path}" in done.stderr
    await first.close()
    second = RealDisk(tmp_path)
    assert await second.list() == []
    await second.close()


async def test_half_written_replacements_are_swept_away(tmp_path: Path) -> None:
    (tmp_path / "a.tmp").write_bytes(b"half")
    disk = RealDisk(tmp_path)
    assert await disk.list() == []
    assert not (tmp_path / "a.tmp").exists()
    with pytest.raises(Refused):
        await disk.replace("b.tmp", b"")
    await disk.close()


async def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StorageFailed, match=str(tmp_path / "file")):
        RealDisk(tmp_path / "file")


async def test_errors_of_the_system_name_the_file_and_the_folder(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    file = await disk.open("a", create=True)
    await file.close()
    with pytest.raises(StorageFailed, match=f"cannot write a in the folder {tmp_path}"):
        await file.write(0, [b"x"], sync=True)
    await disk.close()


async def test_a_limit_on_the_size_of_files_counts_as_full(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    file = await disk.open("a", create=True)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(StorageFull, match=str(tmp_path)):
            await file.reserve(100_000)
        assert await file.size() == 0
        with pytest.raises(StorageFull, match="free some space"):
            await file.write(0, [bytes(30_000), bytes(30_000)], sync=True)
        with pytest.raises(StorageFull):
            await disk.replace("b", bytes(60_000))
        assert await disk.list() == ["a"]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    await file.close()
    await disk.close()


@pytest.mark.parametrize("most", [1, 3, 7, 100])
async def test_a_system_that_takes_few_bytes_at_a_time_gets_them_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    def stingy(fd: int, buffers: list[bytes], position: int, flags: int = 0) -> int:
        return os.pwrite(fd, b"".join(buffers)[:most], position)

    monkeypatch.setattr(os, "pwritev", stingy)
    disk = RealDisk(tmp_path)
    file = await disk.open("a", create=True)
    buffers = [b"ab", b"", b"c" * 50, b"de", b"f"]
    await file.write(5, buffers, sync=True)
    assert await file.read(5, 100) == b"".join(buffers)
    await file.close()
    await disk.close()


async def test_a_system_that_cannot_write_and_sync_with_one_call_uses_two(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    pwritev = os.pwritev

    def without_flags(fd: int, buffers: list[bytes], position: int, flags: int = 0) -> int:
        if flags:
            raise OSError(errno.EOPNOTSUPP, "not supported")
        return pwritev(fd, buffers, position)

    monkeypatch.setattr(os, "pwritev", without_flags)
    monkeypatch.setattr(real_disk, "_CAN_WRITE_SYNCED", True)
    monkeypatch.setattr(real_disk, "_sync_data", synced.append)
    disk = RealDisk(tmp_path)
    file = await disk.open("file", create=True)
    for position in (0, 6):
        await file.write(position, [b"abc", b"def"], sync=True)
    assert await file.read(0, 100) == b"abcdefabcdef"
    assert len(synced) == 2
    await file.close()
    await disk.close()


async def test_systems_without_gathered_writes_and_reserving_work_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(fd: int, offset: int, length: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "not here")

    monkeypatch.setattr(real_disk, "_HAS_PWRITEV", False)
    disk = RealDisk(tmp_path)
    for missing in (True, False):
        if missing:
            monkeypatch.delattr(os, "posix_fallocate")
        else:
            monkeypatch.setattr(os, "posix_fallocate", unsupported, raising=False)
        file = await disk.open(f"a{missing}", create=True)
        await file.reserve(100)
        await file.write(0, [b"ab", b"", b"c" * 50], sync=True)
        assert await file.size() == 100
        assert await file.read(0, 52) == b"ab" + b"c" * 50
        await file.close()
    await disk.close()


async def test_reads_do_not_wait_for_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    file = await disk.open("a", create=True)
    await file.write(0, [b"abc"], sync=True)
    reader, writer = os.pipe()
    monkeypatch.setattr(real_disk, "_sync_data", lambda fd: os.read(reader, 1))
    syncing = asyncio.ensure_future(file.sync())
    assert await file.read(0, 3) == b"abc"
    assert not syncing.done()
    os.write(writer, b"x")
    await syncing
    for fd in (reader, writer):
        os.close(fd)
    await file.close()
    await disk.close()


async def test_a_power_cut_keeps_what_was_synced_and_tears_the_rest() -> None:
    outcomes = set()
    for seed in range(40):
        disk = MemoryDisk()
        file = await disk.open("a", create=True)
        await file.write(0, [b"s" * SECTOR], sync=True)
        await file.write(SECTOR, [b"u" * (2 * SECTOR)], sync=False)
        after = disk.crash(random.Random(seed))
        content = after.content("a")
        assert content[:SECTOR] == b"s" * SECTOR
        outcomes.add(content[SECTOR:].rstrip(b"\0"))
        with pytest.raises(StorageFailed):
            await file.read(0, 1)
        with pytest.raises(StorageFailed):
            await disk.list()
    unsynced = b"u" * SECTOR
    assert outcomes == {b"", unsynced, bytes(SECTOR) + unsynced, unsynced * 2}


async def test_a_full_memory_disk_takes_what_fits() -> None:
    disk = MemoryDisk(capacity=100)
    file = await disk.open("a", create=True)
    await file.reserve(60)
    with pytest.raises(StorageFull):
        await file.reserve(101)
    with pytest.raises(StorageFull):
        await file.write(50, [b"x" * 70], sync=True)
    assert await file.size() == 100
    with pytest.raises(StorageFull):
        await disk.replace("b", b"x")
    await file.truncate(10)
    await file.write(0, [b"y" * 50], sync=True)
    assert await file.read(0, 99) == b"y" * 50


async def test_the_real_clock_tells_time() -> None:
    clock = RealClock()
    before, wall = clock.now(), clock.wall_us()
    await clock.sleep(0.001)
    assert clock.now() > before
    assert wall > 1_700_000_000_000_000
