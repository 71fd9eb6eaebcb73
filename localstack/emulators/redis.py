"""Redis: the system's server, or the one in a wheel, without persistence."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from localstack.emulators.server import HOST, EmulatorServer, Program, free_ports
from localstack.environments import environment
from sulina.errors import Unavailable


def running_redis(folder: Path, port: int = 0) -> EmulatorServer:
    """For ``with``, on ``port`` or a free one. Raises ``Unavailable`` if there is no Redis."""
    port = port or free_ports(1)[0]
    found = shutil.which("redis-server") or str(environment("emulators") / "redis-server")
    if not Path(found).exists():
        raise Unavailable(
            "redis-server is not installed: install it from your system's packages "
            "(Debian: apt install redis-server)"
        )
    program = Program(
        name="redis",
        command=(
            *(found, "--bind", HOST, "--port", str(port)),
            *("--save", "", "--appendonly", "no"),
        ),
        port=port,
        ready=_answers,
    )
    return EmulatorServer(folder, program)


def _answers(port: int) -> bool:
    with socket.create_connection((HOST, port), timeout=5) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
