"""The resources available to this process and their usage: CPU, memory, disk, network.

In a container the limits are the container's: cgroup v2 and v1 are read from ``/sys/fs/cgroup``,
and the tightest limit of the group and its parents applies. Without a cgroup (macOS, Windows, a
bare kernel) psutil provides values for the whole machine, if it is installed. Unknown values are 0,
and a limit of 0 means "unknown".

A process that stands in for a container on a shared machine has ``SULINA_CONTAINER_CPUS``: the
container's number of cores, with which its own CPU time is compared.

A reading takes a few small files and never raises: missing and invalid files are skipped.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_UNLIMITED = 1 << 60
"""cgroup v1 expresses "no limit" as a number near 2**63."""
_SECTOR = 512
_MEGABIT = 125_000.0
CONTAINER_CPUS = "SULINA_CONTAINER_CPUS"


@dataclass(frozen=True, slots=True)
class Usage:
    """A used amount and its limit; a limit of 0 means unknown."""

    used: float = 0.0
    limit: float = 0.0

    def fraction(self, unknown_limit: float = 0.0) -> float:
        """The used fraction of the limit, or of ``unknown_limit``; 0 if both are 0."""
        limit = self.limit or unknown_limit
        return self.used / limit if limit > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Resources:
    """One reading. Rates are means since the previous reading."""

    cpu: Usage = field(default_factory=Usage)
    """Cores."""
    memory: Usage = field(default_factory=Usage)
    """Bytes, without the file cache that the kernel can reclaim."""
    disk_space: Usage = field(default_factory=Usage)
    """Bytes, in the file system of the data folder."""
    disk_io: Usage = field(default_factory=Usage)
    """Bytes per second, read and written."""
    network_in: Usage = field(default_factory=Usage)
    """Bytes per second, without loopback."""
    network_out: Usage = field(default_factory=Usage)


@dataclass(frozen=True, slots=True)
class _Counters:
    """Monotonic totals, from which rates are computed. None if unknown."""

    cpu_seconds: float | None
    disk_bytes: int | None
    received: int | None
    sent: int | None


class ResourceMonitor:
    """Reads the resources of this process's container, or of the machine if there is none.

    ``root`` replaces ``/`` in tests. ``data`` is the folder whose file system is monitored. psutil
    provides the values that no file has.
    """

    def __init__(
        self, *, root: Path = Path("/"), data: Path | None = None, ask_psutil: bool = True
    ) -> None:
        self._root = root
        self._data = data
        self._before: tuple[float, _Counters] | None = None
        self._groups = _Groups(root)
        self._psutil = _psutil() if ask_psutil else None
        self._container_cpus = float(os.environ.get(CONTAINER_CPUS) or 0)

    def read(self, now: float) -> Resources:
        """A reading at ``now`` (seconds of a monotonic clock). Rates are 0 in the first one."""
        counters = self._counters()
        before, self._before = self._before, (now, counters)
        rates = _rates(before, now, counters)
        speed = self._link_speed()
        return Resources(
            cpu=Usage(rates.cpu_seconds or 0.0, self._cores()),
            memory=self._memory(),
            disk_space=self._space(),
            disk_io=Usage(float(rates.disk_bytes or 0)),
            network_in=Usage(float(rates.received or 0), speed),
            network_out=Usage(float(rates.sent or 0), speed),
        )

    def _counters(self) -> _Counters:
        received, sent = self._traffic()
        return _Counters(self._cpu_seconds(), self._disk_bytes(), received, sent)

    def _cpu_seconds(self) -> float | None:
        if self._container_cpus:
            own = os.times()
            return own.user + own.system
        micros = self._groups.entry("", "cpu.stat", "usage_usec")
        if micros is not None:
            return micros / 1e6
        nanos = self._groups.number("cpuacct", "cpuacct.usage")
        if nanos is not None:
            return nanos / 1e9
        if self._psutil is not None:
            times = self._psutil.cpu_times()
            return float(sum(times) - times.idle - getattr(times, "iowait", 0.0))
        return None

    def _cores(self) -> float:
        if self._container_cpus:
            return self._container_cpus
        limits = [float(os.cpu_count() or 1)]
        online = [line for line in _lines(self._root / "proc/stat") if line.startswith("cpu")]
        if len(online) > 1:
            limits = [float(len(online) - 1)]
        if self._root == Path("/") and hasattr(os, "sched_getaffinity"):
            limits.append(float(len(os.sched_getaffinity(0))))
        for text in self._groups.texts("", "cpu.max"):
            quota, _, period = text.partition(" ")
            if quota.isdigit() and period.strip().isdigit():
                limits.append(int(quota) / int(period))
        quotas = self._groups.texts("cpu", "cpu.cfs_quota_us")
        periods = self._groups.texts("cpu", "cpu.cfs_period_us")
        limits.extend(
            int(quota) / int(period)
            for quota, period in zip(quotas, periods, strict=False)
            if quota.isdigit() and period.isdigit() and int(period) > 0
        )
        return min(limit for limit in limits if limit > 0)

    def _memory(self) -> Usage:
        total = 1024 * (_entry(self._root / "proc/meminfo", "MemTotal:") or 0)
        available = 1024 * (_entry(self._root / "proc/meminfo", "MemAvailable:") or 0)
        limits = [
            int(text)
            for controller, file in (("", "memory.max"), ("memory", "memory.limit_in_bytes"))
            for text in self._groups.texts(controller, file)
            if text.isdigit() and 0 < int(text) < _UNLIMITED
        ]
        used = self._groups.number("", "memory.current")
        idle = self._groups.entry("", "memory.stat", "inactive_file")
        if used is None:
            used = self._groups.number("memory", "memory.usage_in_bytes")
            idle = self._groups.entry("memory", "memory.stat", "total_inactive_file")
        if used is not None:
            limit = min([*limits, *([total] if total else [])], default=0)
            return Usage(float(max(0, used - (idle or 0))), float(limit))
        if total:
            return Usage(float(total - available), float(total))
        if self._psutil is not None:
            memory = self._psutil.virtual_memory()
            return Usage(float(memory.total - memory.available), float(memory.total))
        return Usage()

    def _space(self) -> Usage:
        if self._data is None:
            return Usage()
        try:
            space = shutil.disk_usage(self._data)
        except OSError:
            return Usage()
        return Usage(float(space.used), float(space.total))

    def _disk_bytes(self) -> int | None:
        text = self._groups.text("", "io.stat")
        if text is not None:
            words = [word.partition("=") for word in text.split() if "=" in word]
            return sum(int(n) for key, _, n in words if key in ("rbytes", "wbytes") and n.isdigit())
        text = self._groups.text("blkio", "blkio.throttle.io_service_bytes")
        if text is not None:
            rows = [line.split() for line in text.splitlines()]
            return sum(int(row[2]) for row in rows if len(row) == 3 and row[1] in ("Read", "Write"))
        rows = [line.split() for line in _lines(self._root / "proc/diskstats")]
        # Only whole disks: partitions would be counted twice.
        disks = [
            row for row in rows if len(row) > 9 and (self._root / "sys/block" / row[2]).exists()
        ]
        if disks:
            return _SECTOR * sum(int(row[5]) + int(row[9]) for row in disks)
        if self._psutil is not None and (counters := self._psutil.disk_io_counters()) is not None:
            return int(counters.read_bytes + counters.write_bytes)
        return None

    def _traffic(self) -> tuple[int | None, int | None]:
        # A container has its own network namespace, so this file describes the container.
        rows = [line.replace(":", " ").split() for line in _lines(self._root / "proc/self/net/dev")]
        cards = [row for row in rows if len(row) > 9 and row[1].isdigit() and row[0] != "lo"]
        if cards:
            return sum(int(row[1]) for row in cards), sum(int(row[9]) for row in cards)
        if self._psutil is not None and (counters := self._psutil.net_io_counters()) is not None:
            return int(counters.bytes_recv), int(counters.bytes_sent)
        return None, None

    def _link_speed(self) -> float:
        """The speed of the fastest interface that reports one; virtual ones often do not."""
        speeds = [
            int(text)
            for path in sorted(self._root.glob("sys/class/net/*/speed"))
            for text in _lines(path)[:1]
            if text.isdigit() and path.parent.name != "lo"
        ]
        return max(speeds, default=0) * _MEGABIT


class _Groups:
    """Files of this process's control groups. Controller "" is the unified v2 hierarchy."""

    def __init__(self, root: Path) -> None:
        self._folders: dict[str, list[Path]] = {}
        top = root / "sys/fs/cgroup"
        for line in _lines(root / "proc/self/cgroup"):
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            for controller in controllers.split(","):
                if not controller:
                    mounts = [top, top / "unified"]
                else:
                    mounts = [top / controller, top / controllers]
                for mount in mounts:
                    if mount.is_dir():
                        self._folders.setdefault(controller, []).extend(_upwards(mount, path))

    def texts(self, controller: str, file: str) -> list[str]:
        """The file's content in this process's group and its ancestors, nearest first."""
        found = (_text(folder / file) for folder in self._folders.get(controller, ()))
        return [text for text in found if text is not None]

    def text(self, controller: str, file: str) -> str | None:
        """The file's content in the nearest group that has it."""
        return next(iter(self.texts(controller, file)), None)

    def number(self, controller: str, file: str) -> int | None:
        text = self.text(controller, file)
        return int(text) if text is not None and text.isdigit() else None

    def entry(self, controller: str, file: str, key: str) -> int | None:
        """The number of ``key`` in a file of ``key number`` lines."""
        return _find(self.text(controller, file) or "", key)


def _upwards(mount: Path, path: str) -> list[Path]:
    """The folders of a group and its ancestors that are visible.

    Inside a container the path may be the host's, which is not mounted: then the mount itself is
    the process's group.
    """
    folder = mount / path.strip("/")
    folders = [folder, *folder.parents] if folder != mount else [mount]
    return [one for one in folders if one.is_relative_to(mount) and one.is_dir()]


def _rates(before: tuple[float, _Counters] | None, now: float, after: _Counters) -> _Counters:
    if before is None or now <= before[0]:
        return _Counters(None, None, None, None)
    seconds = now - before[0]

    def rate(name: str) -> Any:
        old, new = getattr(before[1], name), getattr(after, name)
        # A counter that decreased was reset: its rate is unknown this time.
        return None if old is None or new is None or new < old else (new - old) / seconds

    return _Counters(rate("cpu_seconds"), rate("disk_bytes"), rate("received"), rate("sent"))


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def _lines(path: Path) -> list[str]:
    return (_text(path) or "").splitlines()


def _entry(path: Path, key: str) -> int | None:
    return _find(_text(path) or "", key)


def _find(text: str, key: str) -> int | None:
    for line in text.splitlines():
        words = line.split()
        if len(words) > 1 and words[0] == key and words[1].isdigit():
            return int(words[1])
    return None


def _psutil() -> Any:
    """psutil if it is installed; Linux containers do not need it."""
    try:
        import psutil
    except ImportError:
        return None
    return psutil
