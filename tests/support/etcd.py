"""Real etcd for tests, on free ports of 127.0.0.1, by default without syncing to the disk.

That is safe here: what is killed in tests are processes, never the machine.
"""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from sulina.errors import Unavailable
from sulina.metadata.etcd.members import EtcdMembers
from sulina.metadata.etcd.server import EtcdServers, MemberSpec, find_etcd
from sulina.runtime.real_clock import RealClock
from sulina.runtime.tls_files import TlsFiles

_LOWEST_PORT, _HIGHEST_PORT = 12_000, 32_000


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, all different.

    They are below those that the system gives to connections, which may otherwise take the port of
    a server while it is down.
    """
    chance = random.SystemRandom()
    chosen: list[int] = []
    with ExitStack() as stack:
        while len(chosen) < count:
            port = chance.randrange(_LOWEST_PORT, _HIGHEST_PORT)
            with suppress(OSError):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
                chosen.append(port)
    return chosen


def etcd_servers(
    folder: Path,
    members: int = 1,
    *,
    flags: Sequence[str] = (),
    sync: bool = False,
    tls: TlsFiles | None = None,
    client_tls: TlsFiles | None = None,
) -> EtcdServers:
    """Members that are not started yet. Skips the test where there is no etcd."""
    try:
        program = find_etcd()
    except Unavailable as error:
        pytest.skip(str(error))
    ports = free_ports(2 * members)
    specs = [
        MemberSpec(f"m{number}", ports[2 * number], ports[2 * number + 1])
        for number in range(members)
    ]
    return EtcdServers(
        folder,
        specs,
        RealClock(),
        flags=flags if sync else ("--unsafe-no-fsync", *flags),
        program=program,
        tls=tls,
        client_tls=client_tls,
    )


@contextmanager
def running_etcd(folder: Path, members: int = 1) -> Iterator[EtcdServers]:
    """Members that run and answer; killed at the end. Not for use inside an event loop."""
    servers = etcd_servers(folder, members)
    try:
        asyncio.run(servers.start())
        yield servers
    finally:
        servers.kill()


async def leader_of(servers: EtcdServers) -> str:
    """The name of the member that leads now; the members that run must have one."""
    for name in servers.members:
        if not servers.members[name].running:
            continue
        [endpoint] = servers.settings_of(name).endpoints
        members = EtcdMembers(servers.settings_of(name), RealClock())
        try:
            status = await members.ask(endpoint, "/maintenance/status", "{}")
        finally:
            await members.close()
        if status["header"]["member_id"] == status.get("leader"):
            return name
    raise AssertionError("no member leads")
