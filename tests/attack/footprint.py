"""What a broker holds, so that what an attack leaves behind is found.

Memory in MiB, file descriptors, threads, tasks and connections, the files in the data folder, the
topics, and in a cluster the keys and leases in etcd.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from tests.attack.attack import SECONDS, Target
from tests.attack.bystander import resident_mib

NOISE: Final = {
    # Python's allocator returns memory in arenas of 1 MiB that are wholly empty, and the audit
    # trail and the journal's index grow with every refusal.
    "memory": 8.0,
    # Journal files that the broker has just begun or keeps open to read, and the connection that
    # asks for the metrics.
    "descriptors": 4.0,
    "threads": 4.0,
    "tasks": 8.0,
    "connections": 1.0,
    "files": 4.0,
    "topics": 0.0,
    "keys": 0.0,
    "leases": 0.0,
}
"""How much more than before is not left behind by the attack."""
_OWN_KEYS: Final = ("/audit/", "/auth/")
"""The trail's ends, and tokens that the attacks were given."""
_QUIET_SECONDS: Final = 5
_COUNT: Final = re.compile(r"^(sulina_tasks|sulina_connections)(?:\{[^}]*\})? (\d+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a broker holds at a moment."""

    memory: float
    descriptors: float
    threads: float
    tasks: float
    connections: float
    files: float
    topics: float
    keys: float
    leases: float

    def more_than(self, before: Footprint) -> dict[str, float]:
        """What there is more of than before, beyond the noise."""
        now, then = asdict(self), asdict(before)
        return {
            name: now[name] - then[name] for name in now if now[name] > then[name] + NOISE[name]
        }


async def footprint(target: Target) -> Footprint:
    """What the broker holds now."""
    _, metrics = await target.http("GET", "/metrics", target.root)
    counts = {"sulina_tasks": 0, "sulina_connections": 0}
    for name, count in _COUNT.findall(metrics.decode()):
        counts[name] += int(count)
    async with target.connect() as client:
        listed = await client.admin("topic.list", {})
    keys, leases = await _etcd(target.etcd) if target.etcd else (0, 0)
    proc = Path(f"/proc/{target.pid}")
    return Footprint(
        memory=resident_mib(target.pid),
        descriptors=len(os.listdir(proc / "fd")),
        threads=len(os.listdir(proc / "task")),
        tasks=counts["sulina_tasks"],
        connections=counts["sulina_connections"],
        files=sum(len(files) for _, _, files in os.walk(target.data)),
        topics=len(listed),
        keys=keys,
        leases=leases,
    )


async def settled(target: Target) -> None:
    """Wait until the broker holds no more than a moment ago: it has just started."""
    before = await footprint(target)
    quiet = 0
    async with asyncio.timeout(SECONDS):
        while quiet < _QUIET_SECONDS:
            await asyncio.sleep(1)
            now = await footprint(target)
            quiet = 0 if now.more_than(before) else quiet + 1
            before = now if quiet == 0 else before


async def _etcd(url: str) -> tuple[int, int]:
    """How many keys and leases etcd has."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    everything = {"key": "AA==", "range_end": "AA==", "keys_only": True}
    async with aiohttp.ClientSession(timeout=timeout) as session:

        async def ask(path: str, body: dict[str, Any]) -> dict[str, Any]:
            async with session.post(f"{url}/v3/{path}", json=body) as answer:
                found: dict[str, Any] = await answer.json()
                return found

        kept = (await ask("kv/range", everything)).get("kvs", [])
        leases = (await ask("lease/leases", {})).get("leases", [])
    names = [base64.b64decode(each["key"]).decode(errors="replace") for each in kept]
    return sum(not any(own in name for own in _OWN_KEYS) for name in names), len(leases)
