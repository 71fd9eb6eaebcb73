"""A process killed at any moment, under load, loses nothing that it acknowledged."""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path

from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import open_journal

WRITER = """
import asyncio, sys
from sulina.runtime.real_disk import RealDisk
from tests.storage.stores import open_journal
from tests.storage.test_kill import content

async def main():
    store = await open_journal(RealDisk(sys.argv[1]))
    ledger = int(sys.argv[2])
    entry = 0

    def report(done, entry):
        if done.exception() is None:
            print(entry, flush=True)

    while True:
        await store.wait_writable()
        done = store.append(ledger, entry, entry - 1, content(ledger, entry))
        done.add_done_callback(lambda done, entry=entry: report(done, entry))
        entry += 1
        if entry % 7 == 0:
            await done

asyncio.run(main())
"""


def content(ledger: int, entry: int) -> bytes:
    return b"%d-%d " % (ledger, entry) * (entry % 90 + 1)


async def test_a_killed_writer_loses_nothing_acknowledged(tmp_path: Path) -> None:
    chance = random.Random(7)
    acknowledged: dict[int, int] = {}
    for ledger in range(8):
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", WRITER, str(tmp_path), str(ledger)),
            stdout=asyncio.subprocess.PIPE,
            cwd=Path(__file__).parents[2],
        )
        assert writer.stdout is not None
        told = b"".join([await writer.stdout.readline() for _ in range(chance.randrange(1, 400))])
        writer.kill()
        told += await writer.stdout.read()
        await writer.wait()
        *_, last, _ = told.split(b"\n")
        acknowledged[ledger] = int(last)
        disk = RealDisk(tmp_path)
        store = await open_journal(disk)
        assert store.unclean
        assert store.recovery.damaged == ()
        for written, highest in acknowledged.items():
            entries = await store.read(written, 0, max_entries=1 << 30, max_bytes=1 << 40)
            assert len(entries) > highest
            for entry in entries:
                assert bytes(entry.payload) == content(written, entry.entry)
        await store.close()
        await disk.close()
