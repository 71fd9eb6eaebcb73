"""Transactions a second of ``EtcdStore``: ``python -m tests.metadata.etcd_rate [members] [s]``.

16 compare-and-swaps of 100 bytes in flight, each on a key of its own, on etcd that syncs to disk.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path

from sulina.metadata import cas
from sulina.metadata.etcd import EtcdStore
from sulina.runtime.real_clock import RealClock
from tests.support.etcd import etcd_servers

IN_FLIGHT = 16


async def measure(members: int, seconds: float) -> str:
    with tempfile.TemporaryDirectory(dir=".") as folder:
        servers = etcd_servers(Path(folder).resolve(), members, sync=True)
        try:
            await servers.start()
            store = await EtcdStore.open(servers.settings, RealClock())
            end = time.monotonic() + seconds
            spent = time.process_time()
            done = await asyncio.gather(*(write(store, number, end) for number in range(IN_FLIGHT)))
            spent = time.process_time() - spent
            await store.close()
        finally:
            servers.kill()
    return (
        f"{sum(done) / seconds:.0f} transactions/s, {IN_FLIGHT} in flight, {members} member(s); "
        f"{spent / sum(done) * 1e6:.0f} us of the client's processor for each\n"
    )


async def write(store: EtcdStore, number: int, end: float) -> int:
    revision: int | None = 0
    done = 0
    while time.monotonic() < end:
        revision = await cas.swap(store, f"/rate/{number}", revision or 0, bytes(100))
        assert revision is not None, "nobody else writes this key"
        done += 1
    return done


if __name__ == "__main__":
    arguments = [*sys.argv[1:], *("1", "5")[len(sys.argv) - 1 :]]
    sys.stdout.write(asyncio.run(measure(int(arguments[0]), float(arguments[1]))))
