"""The load balancer: one port per listener, which leads to the brokers that serve it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from broker_containers.local_cluster.front import DanubeFront
from broker_containers.local_cluster.ports import LOCAL
from localstack.cloud.addresses import ADMIN, BINARY, GRPC
from localstack.cloud.containers import Containers
from localstack.emulators.server import free_ports
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
