"""The load balancer: one port per listener, which leads to the brokers that serve it."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from broker_containers.local_cluster.front import DanubeFront
from broker_containers.local_cluster.ports import LOCAL
from localstack.cloud.addresses import ADMIN, BINARY, GRPC, HTTP
from localstack.cloud.containers import Containers
from localstack.emulators.server import free_ports
from sulina.errors import Refused
from sulina.runtime.seam import Clock


def listener_ports(account: Any, wanted: int) -> dict[int, int]:
    """The load balancer's listeners, and their ports here. Blocks.

    ``wanted`` is the port for Sulina's clients; with 0, all ports are free ones.
    """
    elb = account.client("elbv2")
    arn = elb.describe_load_balancers()["LoadBalancers"][0]["LoadBalancerArn"]
    ports = [each["Port"] for each in elb.describe_listeners(LoadBalancerArn=arn)["Listeners"]]
    if not wanted:
        return dict(zip(ports, free_ports(len(ports)), strict=True))
    return {port: wanted if port == BINARY else port for port in ports}


def check_free(wanted: int) -> None:
    """Raises ``Refused`` if a port of the load balancer is in use; ``wanted`` as above."""
    for port in (wanted, HTTP, GRPC, ADMIN) if wanted else ():
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((LOCAL, port))
            except OSError:
                raise Refused(
                    f"port {port} of {LOCAL} is in use: stop the program that uses it, or choose "
                    "free ports with --port 0"
                ) from None


class Balancer:
    """Use as ``async with`` while the brokers run. Raises ``Refused`` if a port is in use."""

    def __init__(self, ports: Mapping[int, int], containers: Containers, clock: Clock) -> None:
        self._ports = ports
        self._containers = containers
        self._clock = clock
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> None:
        async with AsyncExitStack() as stack:
            for port, here in self._ports.items():
                front = DanubeFront(
                    LOCAL,
                    here,
                    lambda port=port: self._containers.serving(port),  # type: ignore[misc]
                    self._clock,
                    plain=port in (GRPC, ADMIN),
                )
                await stack.enter_async_context(front)
            self._stack = stack.pop_all()

    async def __aexit__(self, *exc: object) -> None:
        await self._stack.aclose()
