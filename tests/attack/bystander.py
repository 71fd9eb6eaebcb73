"""A client that does nothing wrong while a broker is attacked, in a process of its own.

Every few milliseconds it sends a ping over the binary door, and several times per second it opens a
new HTTP connection and asks for the broker's health. Between those it reads the broker's memory. It
stops when its standard input ends, and prints what it saw as JSON.

Time in which the broker or the bystander was ready to run and had no processor does not count: that
depends on what else the machine does, and on the attacker, which runs on the same machine.

    python -m tests.attack.bystander PORT HTTP_PORT PID < pipe    (the token is in $SULINA_TOKEN)
"""

from __future__ import annotations

import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from sulina.wire import commands_pb2 as pb
from sulina.wire.commands import PROTOCOL_VERSION, Command, pack

_PING_SECONDS = 0.005
_HEALTH_SECONDS = 0.2
_PATIENCE = 60.0


def resident_mib(pid: int) -> float:
    """The memory of a process, in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def _delayed_seconds(pid: int) -> float:
    """How long the main thread of a process has waited for a processor, since its start."""
    return int(Path(f"/proc/{pid}/task/{pid}/schedstat").read_text().split()[1]) / 1e9


def _stall(pid: int, work: Callable[[], None]) -> float:
    """How long ``work`` waited for the broker, in seconds."""
    me = os.getpid()
    before = _delayed_seconds(pid) + _delayed_seconds(me)
    began = time.monotonic()
    work()
    took = time.monotonic() - began
    return max(took - (_delayed_seconds(pid) + _delayed_seconds(me) - before), 0.0)


class _Pinging:
    def __init__(self, port: int, token: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._ask(Command.CONNECT, pb.Connect(protocol=PROTOCOL_VERSION, token=token))

    def _ask(self, command: Command, body: pb.Connect | pb.Ping) -> None:
        self._socket.sendall(pack(command, 1, body))
        length = int.from_bytes(self._exactly(4), "little")
        if self._exactly(length)[0] == Command.ERROR:
            raise ConnectionError("the broker answered with an error")

    def _exactly(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            part = self._socket.recv(count - len(found))
            if not part:
                raise ConnectionError("the broker closed the connection")
            found += part
        return found

    def ping(self) -> None:
        self._ask(Command.PING, pb.Ping())


def _connected(port: int, token: str) -> _Pinging:
    """Retries, as clients do: the connections of the previous attack may just be closing."""
    end = time.monotonic() + _PATIENCE
    while True:
        try:
            return _Pinging(port, token)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


def _check_health(port: int, what: bytes) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=_PATIENCE) as connection:
        connection.sendall(
            b"GET /health/%s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" % what
        )
        answer = b""
        while part := connection.recv(65536):
            answer += part
    if not answer.startswith(b"HTTP/1.1 200"):
        raise ConnectionError(f"the health check got {answer[:40]!r}")


def main() -> None:
    port, http_port, pid = map(int, sys.argv[1:4])
    pinging = _connected(port, os.environ["SULINA_TOKEN"])
    stall = health_stall = 0.0
    peak = resident_mib(pid)
    error = ""
    checked = 0.0
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select((sys.stdin,), (), (), _PING_SECONDS)[0] and not error:
        try:
            stall = max(stall, _stall(pid, pinging.ping))
            peak = max(peak, resident_mib(pid))
            if time.monotonic() - checked > _HEALTH_SECONDS:
                alive = partial(_check_health, http_port, b"live")
                health_stall = max(health_stall, _stall(pid, alive))
                # How long this takes depends on etcd and the storage nodes, too.
                _check_health(http_port, b"ready")
                checked = time.monotonic()
        except OSError as problem:
            error = str(problem) or type(problem).__name__
    seen = {"stall": stall, "health_stall": health_stall, "peak": peak, "error": error}
    sys.stdout.write(json.dumps(seen) + "\n")


if __name__ == "__main__":
    main()
