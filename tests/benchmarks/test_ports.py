"""Ports in a row for the servers that count up from a base."""

from __future__ import annotations

import socket
from contextlib import ExitStack

from benchmarks.systems.pulsar_ import free_run
from localstack.emulators.server import HOST


def test_ports_in_a_row_are_found_though_the_kernel_gives_every_second_one() -> None:
    first = free_run(3)
    with ExitStack() as stack:
        for port in range(first, first + 3):
            stack.enter_context(socket.socket()).bind((HOST, port))
