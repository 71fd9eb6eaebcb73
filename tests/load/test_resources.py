"""Readings of the machine, on laid-out trees of cgroup v1 and v2, and on this very machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from sulina.runtime.resources import CONTAINER_CPUS, ResourceMonitor, Usage

MACHINE = {
    "proc/stat": "cpu  1 2 3\ncpu0 1 2 3\ncpu1 1 2 3\ncpu2 1 2 3\ncpu3 1 2 3\nintr 5\n",
    "proc/meminfo": "MemTotal:       16000 kB\nMemFree: 1 kB\nMemAvailable:   12000 kB\n",
    "proc/self/net/dev": (
        "Inter-|   Receive     |  Transmit\n"
        " face |bytes    packets|bytes\n"
        "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
        "  eth0: 1000 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n"
    ),
    "sys/class/net/eth0/speed": "1000\n",
    "sys/class/net/lo/speed": "-1\n",
}
V2 = {
    "proc/self/cgroup": "0::/pod/broker\n",
    "sys/fs/cgroup/pod/broker/cpu.stat": "usage_usec 4000000\nuser_usec 1\n",
    "sys/fs/cgroup/pod/broker/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/pod/cpu.max": "max 100000\n",
    "sys/fs/cgroup/pod/broker/memory.current": "5000000\n",
    "sys/fs/cgroup/pod/broker/memory.stat": "anon 1\ninactive_file 1000000\n",
    "sys/fs/cgroup/pod/broker/memory.max": "max\n",
    "sys/fs/cgroup/pod/memory.max": "8000000\n",
    "sys/fs/cgroup/pod/broker/io.stat": "8:0 rbytes=100 wbytes=200 rios=1\n8:16 wbytes=50\n",
}
V1 = {
    "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n2:blkio:/docker/abc\n",
    "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": "4000000000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "50000\n",
    "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
    "sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes": "5000000\n",
    "sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes": "8000000\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/docker/abc/memory.stat": "cache 1\ntotal_inactive_file 1000000\n",
    "sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes": (
        "8:0 Read 100\n8:0 Write 250\n8:0 Sync 350\n8:0 Total 350\nTotal 350\n"
    ),
}


def lay(root: Path, files: Mapping[str, str]) -> None:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)


def test_a_container_of_cgroup_v2_has_the_tightest_limit_of_its_groups(tmp_path: Path) -> None:
    lay(tmp_path, {**MACHINE, **V2})
    monitor = ResourceMonitor(root=tmp_path)
    first = monitor.read(10.0)
    assert first.cpu == Usage(0.0, 1.5)
    assert first.memory == Usage(4_000_000, 8_000_000)
    lay(
        tmp_path,
        {
            "sys/fs/cgroup/pod/broker/cpu.stat": "usage_usec 7000000\n",
            "sys/fs/cgroup/pod/broker/io.stat": "8:0 rbytes=100 wbytes=2200 rios=1\n8:16 wbytes=50",
            "proc/self/net/dev": MACHINE["proc/self/net/dev"].replace("2000", "22000"),
        },
    )
    second = monitor.read(12.0)
    assert second.cpu == Usage(1.5, 1.5)
    assert second.disk_io == Usage(1_000.0)
    assert second.network_in == Usage(0.0, 125e6)
    assert second.network_out == Usage(10_000.0, 125e6)


def test_a_container_of_cgroup_v1_is_understood_whether_its_path_is_mounted_or_not(
    tmp_path: Path,
) -> None:
    lay(tmp_path, {**MACHINE, **V1})
    monitor = ResourceMonitor(root=tmp_path)
    first = monitor.read(0.0)
    assert first.cpu.limit == 0.5
    assert first.memory == Usage(4_000_000, 8_000_000)
    lay(
        tmp_path,
        {
            "sys/fs/cgroup/cpu,cpuacct/cpuacct.usage": "4500000000\n",
            "sys/fs/cgroup/blkio/blkio.throttle.io_service_bytes": "8:0 Read 300\n8:0 Write 250\n",
        },
    )
    second = monitor.read(2.0)
    assert second.cpu.fraction() == pytest.approx(0.5)
    assert second.disk_io.used == 100.0


def test_without_a_cgroup_the_machine_counts(tmp_path: Path) -> None:
    lay(tmp_path, MACHINE)
    reading = ResourceMonitor(root=tmp_path).read(0.0)
    assert reading.cpu.limit == 4.0
    assert reading.memory == Usage(4_000 * 1024, 16_000 * 1024)


def test_disks_are_counted_once_and_not_their_partitions(tmp_path: Path) -> None:
    row = "8 {n} {name} 1 0 {read} 0 1 0 {written} 0 0 0 0\n"
    lay(tmp_path, {**MACHINE, "sys/block/sda/size": "1"})
    monitor = ResourceMonitor(root=tmp_path)
    for seconds, sectors in ((0.0, 0), (1.0, 10)):
        rows = [row.format(n=n, name=f"sda{n or ''}", read=sectors, written=0) for n in (0, 1)]
        lay(tmp_path, {"proc/diskstats": "".join(rows)})
        reading = monitor.read(seconds)
    assert reading.disk_io.used == 10 * 512


def test_a_counter_that_went_back_or_a_clock_that_stood_still_gives_no_rate(
    tmp_path: Path,
) -> None:
    lay(tmp_path, {**MACHINE, **V2})
    monitor = ResourceMonitor(root=tmp_path)
    monitor.read(1.0)
    assert monitor.read(1.0).cpu.used == 0.0
    lay(tmp_path, {"sys/fs/cgroup/pod/broker/cpu.stat": "usage_usec 5\n"})
    assert monitor.read(2.0).cpu.used == 0.0


def test_an_empty_or_garbled_tree_reads_as_unknown(tmp_path: Path) -> None:
    reading = ResourceMonitor(root=tmp_path, data=tmp_path / "absent", ask_psutil=False).read(0.0)
    assert reading.memory == reading.disk_space == reading.network_in == Usage()
    assert reading.memory.fraction() == 0.0
    lay(tmp_path, dict.fromkeys([*MACHINE, *V2], "\x00 odd :: words\n"))
    assert ResourceMonitor(root=tmp_path).read(0.0).cpu.limit >= 1


def test_where_no_file_answers_psutil_does(tmp_path: Path) -> None:
    monitor = ResourceMonitor(root=tmp_path)
    monitor.read(0.0)
    reading = monitor.read(1.0)
    assert 0 < reading.memory.used < reading.memory.limit
    assert reading.cpu.limit >= 1
    assert min(reading.cpu.used, reading.disk_io.used, reading.network_in.used) >= 0


def test_this_machine_can_be_read(tmp_path: Path) -> None:
    monitor = ResourceMonitor(data=tmp_path)
    monitor.read(0.0)
    total = sum(number * number for number in range(200_000))
    reading = monitor.read(1.0)
    assert total
    assert reading.cpu.used > 0
    assert 0 < reading.cpu.limit <= (os.cpu_count() or 1)
    assert 0 < reading.memory.used <= reading.memory.limit
    assert 0 < reading.disk_space.used < reading.disk_space.limit


def test_a_process_in_place_of_a_container_counts_its_own_cpu_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(CONTAINER_CPUS, "0.25")
    monitor = ResourceMonitor()
    before = os.times()
    monitor.read(0.0)
    while os.times().user + os.times().system < before.user + before.system + 0.06:
        pass  # use some

    found = monitor.read(1.0).cpu

    assert found.limit == 0.25
    assert 0.05 <= found.used <= os.times().user + os.times().system
