"""Runs attacks against a real broker, and measures what they cost others."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import TimeoutExpired

from tests.attack.attack import Attack, AttackSucceeded, Target, must
from tests.attack.bystander import resident_mib
from tests.attack.footprint import Footprint, footprint
from tests.support.local_cluster import ClusterUp
from tests.support.server import SulinaProcess

MAX_STALL_MS = 250.0
MAX_GROWTH_MIB = 64.0
"""For an attacker without a token."""
MAX_LOG_BYTES = 16 << 10
_SETTLE_SECONDS = 60.0
_RUN_SECONDS = 180.0
_ROOT = "the root token of the attacked broker"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome of one attack."""

    name: str
    needs: str
    growth_mib: float
    left_mib: float
    stall_ms: float
    seconds: float
    held: bool
    detail: str = ""
    """Why it did not hold."""


@contextmanager
def single_broker(folder: Path) -> Iterator[Target]:
    """``sulina up --auth`` in a process of its own.

    Raises ``AttackSucceeded`` if it survives SIGTERM.
    """
    root = _root_file(folder)
    server = SulinaProcess(folder / "data", "--auth", str(root)).start()
    try:
        yield Target(
            url=server.url,
            port=server.port,
            http_port=server.http_port,
            grpc_port=server.grpc_port,
            admin_port=server.admin_port,
            pid=server.pid,
            root=_ROOT,
            log=folder / "data.log",
            data=folder / "data",
        )
        try:
            code = server.stop()
        except RuntimeError as error:
            raise AttackSucceeded(f"SIGTERM did not end the broker: {error}") from None
        _must_have_ended(code, folder / "data.log")
    finally:
        server.kill()


@contextmanager
def cluster(folder: Path) -> Iterator[Target]:
    """The first broker of a cluster of processes.

    Raises ``AttackSucceeded`` if a process survives SIGTERM.
    """
    root = _root_file(folder)
    arguments = ("--brokers", "3", "--storage", "3", "--etcd", "1", "--auth", str(root))
    with ClusterUp(folder / "data", *arguments) as up:
        first = up.ready["brokers"][0]
        yield Target(
            url=first["url"],
            port=first["port"],
            http_port=first["http_port"],
            grpc_port=first["grpc_port"],
            admin_port=first["admin_port"],
            pid=first["pid"],
            root=_ROOT,
            log=Path(first["log"]),
            data=folder / "data",
            etcd=up.ready["etcd"][0]["url"],
        )
        try:
            code = up.stop()
        except TimeoutExpired:
            raise AttackSucceeded("SIGTERM did not end the cluster") from None
        _must_have_ended(code, Path(first["log"]))


def _must_have_ended(code: int, log: Path) -> None:
    """Raise ``AttackSucceeded`` unless the process has ended as it should."""
    must(code == 0, f"after SIGTERM the exit code was {code}: see {log}")
    must("Traceback" not in log.read_text(errors="replace"), f"{log} has a traceback")


def _root_file(folder: Path) -> Path:
    root = folder / "root.token"
    root.write_text(_ROOT)
    root.chmod(0o600)
    return root


async def run_attack(attack: Attack, target: Target) -> Result:
    """Run one attack with a bystander beside it; then wait until its memory is released."""
    began = time.monotonic()
    before, log_before = await footprint(target), _size(target.log)
    leader, owners = await _leader_and_owners(target)
    bystander = await _start_bystander(target)
    detail = ""
    try:
        await asyncio.wait_for(attack.run(target), _RUN_SECONDS)
    except AttackSucceeded as error:
        detail = str(error)
    except TimeoutError:
        detail = f"the attack did not end within {_RUN_SECONDS:g} s"
    except Exception as error:
        detail = f"{type(error).__name__}: {error}"
    target.close_all()
    said, _ = await asyncio.wait_for(bystander.communicate(b""), _RUN_SECONDS)
    seen = json.loads(said)
    left = await _left(target, before, attack.keeps)
    left_mib = max(resident_mib(target.pid) - before.memory, 0.0)
    stall_ms = 1000 * max(seen["stall"], seen["health_stall"])
    growth = max(seen["peak"] - before.memory, 0.0)
    logged = _size(target.log) - log_before
    leader_now, owners_now = await _leader_and_owners(target)
    moved = [each for each in owners if owners_now.get(each, owners[each]) != owners[each]]
    problems = [
        detail,
        f"a bystander was disconnected or refused: {seen['error']}" if seen["error"] else "",
        f"a bystander waited {stall_ms:.0f} ms" if stall_ms > MAX_STALL_MS else "",
        f"it cost {growth:.0f} MiB" if attack.by_stranger and growth > MAX_GROWTH_MIB else "",
        f"after a minute there were more: {', '.join(left.values())}" if left else "",
        f"it wrote {logged} bytes to the log" if logged > MAX_LOG_BYTES else "",
        f"{leader} lost the lead to {leader_now}" if leader_now != leader else "",
        f"topics moved: {', '.join(moved[:5])}" if moved else "",
    ]
    found = "; ".join(each for each in problems if each)
    seconds = time.monotonic() - began
    return Result(attack.name, attack.needs, growth, left_mib, stall_ms, seconds, not found, found)


async def _leader_and_owners(target: Target) -> tuple[str, dict[str, str]]:
    """Who leads, with the term, and the owner of each topic: a lost lease changes one of them."""
    async with target.connect() as client:
        cluster_now = await client.admin.cluster.describe()
        owners: dict[str, str] = {}
        for row in cluster_now.brokers:
            details = await client.admin.brokers.describe(row.broker)
            owners |= dict.fromkeys(details.owns, row.broker)
    return f"{cluster_now.leader} (term {cluster_now.term})", owners


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


async def _start_bystander(target: Target) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.attack.bystander",
        *map(str, (target.port, target.http_port, target.pid)),
        env={**os.environ, "SULINA_TOKEN": target.root},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), _RUN_SECONDS)
    assert line == b"ready\n", line
    return process


async def _left(target: Target, before: Footprint, kept: frozenset[str]) -> dict[str, str]:
    """What the broker still holds once that is nothing, or after a minute."""
    end = time.monotonic() + _SETTLE_SECONDS
    while True:
        more = (await footprint(target)).more_than(before)
        left = {name: what for name, what in more.items() if name not in kept}
        if not left or time.monotonic() > end:
            return left
        await asyncio.sleep(0.5)
