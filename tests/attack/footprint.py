"""What a broker holds, so that what an attack leaves behind is found.

Memory in MiB, file descriptors, threads, tasks and connections, the files in the data folder, the
topics, and in a cluster the keys and leases in etcd.
"""

from __future__ import annotations

import asyncio
import base64
import os
import re
from dataclasses import dataclass
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
    "leases": 0.0,
}
"""How much more than before is not left behind by the attack."""
_OWN_KEYS: Final = ("/audit/", "/auth/", "/ledgers/", "/state/system/", "/cluster/load_balance")
"""Tokens that the attacks were given, and what brokers write by themselves, such as the ledgers of
the audit trail. Topics and their owners are among the others."""
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
    leases: float
    keys: frozenset[str]

    def more_than(self, before: Footprint) -> dict[str, str]:
        """What there is more of than before, beyond the noise, and how much."""
        found = {}
        for name, noise in NOISE.items():
            more = getattr(self, name) - getattr(before, name)
            if more > noise:
                found[name] = f"{more:.0f} {'MiB' if name == 'memory' else name}"
        if new := sorted(self.keys - before.keys):
            found["keys"] = f"the keys {', '.join(new[:3])}{', ...' if new[3:] else ''}"
        return found


async def footprint(target: Target) -> Footprint:
    """What the broker holds now."""
    _, metrics = await target.http("GET", "/metrics", target.root)
    counts = {"sulina_tasks": 0, "sulina_connections": 0}
    for name, count in _COUNT.findall(metrics.decode()):
        counts[name] += int(count)
    async with target.connect() as client:
        listed = await client.admin("topic.list", {})
    keys, leases = await _etcd(target.etcd) if target.etcd else (frozenset[str](), 0)
    proc = Path(f"/proc/{target.pid}")
    return Footprint(
        memory=resident_mib(target.pid),
        descriptors=len(os.listdir(proc / "fd")),
        threads=len(os.listdir(proc / "task")),
        tasks=counts["sulina_tasks"],
        connections=counts["sulina_connections"],
        files=sum(len(files) for _, _, files in os.walk(target.data)),
        topics=len(listed),
        leases=leases,
        keys=keys,
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


async def _etcd(url: str) -> tuple[frozenset[str], int]:
    """The keys in etcd that nobody but an attack would add, and how many leases there are."""
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
    return frozenset(each for each in names if not any(own in each for own in _OWN_KEYS)), len(
        leases
    )
