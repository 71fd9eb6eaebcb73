"""Which storage nodes there are, and how they are: ``Nodes`` over gRPC.

Every node is asked who it is and how it is once in a while. One that is silent, says that its disk
failed, or was reported as failed, is not chosen until it answers well again, and the more often it
fails the longer it has to wait. One that comes back with other data is another member; its old
name resolves to nobody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from types import TracebackType
from typing import Self

from storage_grpc.node import Node
from storage_grpc.remote.node import RemoteNode
from storage_grpc.remote.node_monitor import NodeMonitor
from storage_grpc.remote.settings import RemoteSettings
from sulina.errors import Refused, Unavailable
from sulina.runtime.deadline import within
from sulina.runtime.seam import Clock, Randomness

_SAME_LOAD = 1 << 20
"""Nodes whose pending bytes differ by less are equally good."""


class RemoteNodes:
    """Made from ``name=host:port`` of every node. Use it in ``async with``.

    Right after its start no node is known: wait for ``ready``. Its start raises ``Refused`` if
    the settings name TLS files that can't be used.
    """

    def __init__(
        self,
        places: Sequence[str],
        clock: Clock,
        randomness: Randomness,
        settings: RemoteSettings | None = None,
    ) -> None:
        self._clock = clock
        self._randomness = randomness
        self._settings = settings or RemoteSettings()
        self._places = dict(map(_parse, places))
        if len(self._places) < len(places):
            raise Refused("two storage nodes have the same name: each needs one of its own")
        self._monitors: list[NodeMonitor] = []
        self._watching: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        # All of them before the first is watched: one that can't be made leaves no task behind.
        self._monitors = [
            NodeMonitor(name, address, self._settings, self._clock, self._changed.set)
            for name, address in self._places.items()
        ]
        self._watching = [
            asyncio.create_task(monitor.watch(), name=f"watch-{monitor.name}")
            for monitor in self._monitors
        ]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for monitor in self._monitors:
            await monitor.close()
        self._watching.clear()
        self._monitors.clear()

    async def ready(self, count: int) -> None:
        """Wait until so many nodes are healthy; the caller sets the deadline."""
        while len(self._healthy()) < count:
            self._changed.clear()
            await self._changed.wait()

    async def ready_within(self, seconds: float, count: int, who: str) -> None:
        """The same with a deadline: raises ``Unavailable``, with what is wrong with each node.

        ``who`` says which nodes are waited for.
        """
        try:
            await within(self._clock, seconds, self.ready(count))
        except TimeoutError:
            raise Unavailable(
                f"{who} did not answer within {seconds:g} s ({self.troubles})"
            ) from None

    @property
    def troubles(self) -> str:
        """What is wrong with each node that is not healthy."""
        return "; ".join(
            f"{monitor.name}: {monitor.why}" for monitor in self._monitors if not monitor.healthy
        )

    def get(self, member: str) -> RemoteNode | None:
        """See ``Nodes.get``. A node that is not healthy is known all the same."""
        for monitor in self._monitors:
            if monitor.node is not None and monitor.node.id == member:
                return monitor.node
        return None

    def choose(self, count: int, exclude: Collection[str] = ()) -> list[Node]:
        """See ``Nodes.choose``: those with the least to do first, equals in a random order."""
        ranked = [
            (node.pending_bytes // _SAME_LOAD, self._randomness.random(), node)
            for node in self._healthy()
            if node.id not in exclude
        ]
        ranked.sort(key=lambda rank: rank[:2])
        return [node for _, _, node in ranked[:count]]

    def all(self) -> list[RemoteNode]:
        """Every node that was heard of, well or not."""
        return [monitor.node for monitor in self._monitors if monitor.node is not None]

    def with_tier(self) -> list[RemoteNode]:
        """The nodes that have an object store, if they are well; if none is, all of them."""
        well = [node for node in self._healthy() if node.tier]
        known = [monitor.node for monitor in self._monitors if monitor.node is not None]
        return well or [node for node in known if node.tier]

    def failed(self, member: str) -> None:
        """See ``Nodes.failed``."""
        for monitor in self._monitors:
            if monitor.node is not None and monitor.node.id == member:
                monitor.avoid()

    def _healthy(self) -> list[RemoteNode]:
        return [
            monitor.node
            for monitor in self._monitors
            if monitor.healthy and monitor.node is not None
        ]


def _parse(place: str) -> tuple[str, str]:
    name, equals, address = place.strip().partition("=")
    host, colon, port = address.rpartition(":")
    if not (name and equals and host and colon and port.isdecimal() and 0 < int(port) < 65536):
        raise Refused(f"{place!r} names no storage node: write name=host:port")
    return name, address
